"""What a mesh and its workers say to each other: a JSON head, and record bytes. No IO."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Final, NamedTuple

from mesh.interceptors.chain import Count, Failure, InterceptorName, Judged, Placed, Rejected, Step
from mesh.interceptors.spi import On, Where
from mesh.security.principals import Principal

HEAD: Final = Struct(">II")
"""Bytes of the JSON, and of what follows it."""
LARGEST_HEAD: Final = 16 << 20
LARGEST: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class Task:
    """The records of one partition, for these interceptors in this order. where: as clients see it. aborted: producer
    id and first offset of aborted transactions."""

    steps: tuple[Placed, ...]
    records: bytes | memoryview
    where: Where
    aborted: tuple[tuple[int, int], ...] = ()

    @property
    def names(self) -> tuple[InterceptorName, ...]:
        return tuple(each.name for each in self.steps)

    def chain(self, steps: Mapping[InterceptorName, Step]) -> Iterator[Step]:
        """The steps of these names, each with its place."""
        for name, topic, route in self.steps:
            step = steps[name]
            yield step if route is None else replace(step, where=replace(self.where, topic=topic, route=route))


class Unreadable(NamedTuple):
    """Records that are no batches (any more). is_old: they have a format of before Kafka 0.11."""

    is_old: bool
    text: str


class Rubbish(Exception):
    """A worker's answer that is none."""


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
    return Task(steps, data, where, aborted)


def encoded_judged(judged: Judged) -> bytes:
    head = {
        "is_changed": judged.records is not None,
        "next_offset": judged.next_offset,
        "kept_until": judged.kept_until,
        "rejected": judged.rejected,
        "failure": judged.failure,
        "is_failed": judged.is_failed,
        "counts": judged.counts,
    }
    return frame(head, judged.records or b"")


def judged_of(text: bytes, data: bytes) -> Judged | Unreadable:
    """Raises Rubbish."""
    try:
        head = json.loads(text)
        if "unreadable" in head:
            return Unreadable(bool(head["unreadable"]), str(head["text"]))
        failure = head["failure"]
        return Judged(
            data if head["is_changed"] else None,
            int(head["next_offset"]),
            int(head["kept_until"]),
            [Rejected(int(index), str(reason)) for index, reason in head["rejected"]],
            None if failure is None else Failure(InterceptorName(failure[0]), int(failure[1]), str(failure[2])),
            bool(head["is_failed"]),
            {InterceptorName(name): Count(*count) for name, count in head["counts"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
        raise Rubbish(f"{type(problem).__name__}: {problem}") from problem
