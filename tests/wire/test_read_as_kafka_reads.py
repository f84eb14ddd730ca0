"""Kafka's own classes and the readers of the mesh take the same changed messages of every API and version: both read
the same, or the mesh refuses. The comparison finds the former holes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mesh.wire.entities import steps
from mesh.wire.entities.steps import Step, Walk
from mesh.wire.reader import Cursor
from tests.integration.jars import missing_programs
from tests.wire.differential import Case, Differential, cases, run
from tests.wire.kafka_reader import KafkaReader

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason=f"Kafka's classes need {missing_programs()}"),
]
FEW = 1_000
MANY = 100_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaReader]:
    reader = KafkaReader()
    yield reader
    reader.close()


def found(kafka: KafkaReader, seed: int, count: int) -> Differential:
    compared = run(kafka, seed, count)
    both_read = compared.outcomes["read by Kafka, read by the mesh"]
    refused = compared.outcomes["read by Kafka, refused by the mesh"]
    assert both_read > count / 4, "the changes leave too little to read"
    assert refused < count / 10, "the mesh refuses too much"
    return compared


@pytest.mark.smoke
def test_the_mesh_reads_what_kafka_reads(kafka: KafkaReader) -> None:
    assert [str(each) for each in found(kafka, 1, FEW).differences] == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 12))
def test_the_mesh_reads_what_kafka_reads_in_a_million_messages(kafka: KafkaReader, seed: int) -> None:
    assert [str(each) for each in found(kafka, seed, MANY).differences[:20]] == []


def by_its_size(walk: Walk, tag: int, step: Step) -> None:
    """Programs continued behind the size, whatever the value took, and read no value without entities."""
    size = walk.unsigned_varint()
    start, end = walk.position, walk.end
    walk.skip(size)
    walk.position, walk.end = start, start + size
    step(walk)
    walk.position, walk.end = start + size, end


def tree_by_its_size(cursor: Cursor, tag: int, read: Callable[[Cursor], Any]) -> Any:
    """Trees read the value in its own bytes."""
    size = cursor.unsigned_varint()
    start = cursor.position
    value = read(Cursor(cursor.data[start : start + size]))
    cursor.position = start + size
    return value


@pytest.mark.parametrize(
    ("owner", "name", "hole", "readers"),
    [
        pytest.param(steps, "_read_tag", by_its_size, {"program", "program with partitions"}, id="programs"),
        pytest.param(Cursor, "tagged_value", tree_by_its_size, {"tree", "pool"}, id="trees"),
        pytest.param(steps.Walk, "next_tag", lambda walk, _: walk.unsigned_varint(), {"program"}, id="order"),
    ],
)
def test_the_holes_are_found(
    kafka: KafkaReader, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, hole: object, readers: set[str]
) -> None:
    monkeypatch.setattr(owner, name, hole)
    assert readers <= {each.reader for each in run(kafka, 1, FEW).differences}


def test_the_same_seed_makes_the_same_messages() -> None:
    first, second = list(cases(5, 200)), list(cases(5, 200))
    assert first == second != list(cases(6, 200))
    assert all(isinstance(each, Case) for each in first)
