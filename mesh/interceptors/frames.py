"""Frames between a mesh and its workers: a JSON head, and record bytes. No IO."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Final, NamedTuple

from mesh.interceptors.chain import (
    ChainResult,
    ChainStep,
    InterceptorFailure,
    InterceptorName,
    Placed,
    RecordCount,
    Rejected,
)
from mesh.interceptors.spi import On, Where
from mesh.security.principals import Principal

HEAD: Final = Struct(">II")
"""The length of the JSON, and the length of the data after it."""
LARGEST_HEAD: Final = 16 << 20
LARGEST: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class Task:
    """The records of one partition, with the interceptors that must see them, in order. where: the place of the records
    as clients see it. aborted: producer id and first offset of each aborted transaction. decided: as in `run_chain`."""

    steps: tuple[Placed, ...]
    records: bytes | memoryview
    where: Where
    aborted: tuple[tuple[int, int], ...] = ()
    decided: int | None = None

    @property
    def names(self) -> tuple[InterceptorName, ...]:
        return tuple(each.name for each in self.steps)

    def chain(self, steps: Mapping[InterceptorName, ChainStep]) -> Iterator[ChainStep]:
        """Yields the steps of these interceptors, each with its place."""
        for name, topic, route in self.steps:
            step = steps[name]
            yield step if route is None else replace(step, where=replace(self.where, topic=topic, route=route))


class UnreadableRecords(NamedTuple):
    """Records that are not valid batches. is_old: True if they have a format from before Kafka 0.11."""

    is_old: bool
    text: str


class InvalidAnswer(Exception):
    """Raised for an invalid answer of a worker."""


def frame(head: Mapping[str, Any], data: bytes | memoryview) -> bytes:
    text = json.dumps(head).encode()
    return b"".join([HEAD.pack(len(text), len(data)), text, data])


def encoded_task(task: Task) -> bytes:
    where = task.where
    head = {
        "steps": task.steps,
        "aborted": task.aborted,
        "virtual_cluster": where.virtual_cluster,
        "topic": where.topic,
        "partition": where.partition,
        "on": where.on.value,
        "principal": where.principal,
        "client_id": where.client_id,
        "group": where.group,
        "decided": None if task.decided is None else f"{task.decided:x}",
    }
    return frame(head, task.records)


def task_of(head: Mapping[str, Any], data: bytes) -> Task:
    where = Where(
        head["virtual_cluster"],
        head["topic"],
        head["partition"],
        On(head["on"]),
        Principal(head["principal"]),
        head["client_id"],
        group=head["group"],
    )
    aborted = tuple((producer, first) for producer, first in head["aborted"])
    steps = tuple(Placed(InterceptorName(name), topic, route) for name, topic, route in head["steps"])
    decided = None if head["decided"] is None else int(head["decided"], 16)
    return Task(steps, data, where, aborted, decided)


def encoded_result(result: ChainResult) -> bytes:
    head = {
        "is_changed": result.records is not None,
        "next_offset": result.next_offset,
        "kept_until": result.kept_until,
        "rejected": result.rejected,
        "failure": result.failure,
        "is_failed": result.is_failed,
        "counts": result.counts,
        "dropped": f"{result.dropped:x}",
    }
    return frame(head, result.records or b"")


def chain_result_of(text: bytes, data: bytes) -> ChainResult | UnreadableRecords:
    """Decodes the answer to a task. Raises InvalidAnswer."""
    try:
        head = json.loads(text)
        if "unreadable" in head:
            return UnreadableRecords(bool(head["unreadable"]), str(head["text"]))
        failure = head["failure"]
        return ChainResult(
            data if head["is_changed"] else None,
            int(head["next_offset"]),
            int(head["kept_until"]),
            [Rejected(int(index), str(reason)) for index, reason in head["rejected"]],
            None
            if failure is None
            else InterceptorFailure(InterceptorName(failure[0]), int(failure[1]), str(failure[2])),
            bool(head["is_failed"]),
            {InterceptorName(name): RecordCount(*count) for name, count in head["counts"].items()},
            int(head["dropped"], 16),
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
        raise InvalidAnswer(f"{type(problem).__name__}: {problem}") from problem
