from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_kafka_mesh.offsets import WORTH_A_TASK, ForeignOffset, Offset, Range, pieces, tasks, without


@st.composite
def ranges(draw: st.DrawFn) -> list[Range]:
    found, first = [], 0
    for partition, length in enumerate(draw(st.lists(st.integers(1, 10_000), min_size=1, max_size=10))):
        first += draw(st.integers(0, 100))
        found.append(Range("eu", "orders", partition // 2, first, first + length - 1))
        first += length
    return found


@given(ranges(), st.integers(1, 40))
def test_pieces_are_the_ranges_and_as_many_as_asked(whole: list[Range], least: int) -> None:
    cut = pieces(whole, least)
    assert [(each.partition, offset) for each in cut for offset in range(each.first, each.last + 1)] == [
        (each.partition, offset) for each in sorted(whole) for offset in range(each.first, each.last + 1)
    ]
    assert len(cut) >= min(least, sum(map(len, whole)))
    longest, share = max(map(len, cut)), sum(map(len, whole)) / least
    assert longest <= max(2 * share, 1) + 1


def test_nothing_has_no_pieces() -> None:
    assert pieces([], 4) == []


def test_an_offset_outlives_the_checkpoint() -> None:
    """Golden: a later version of the source reads the checkpoints of this one."""
    offset = Offset("job", "lease-1", (Range("eu", "orders", 0, 5, 9),), (("eu", "eu:9092"),))
    text = json.dumps(offset.to_json())
    assert text == (
        '{"version": 1, "holder": "job", "lease": "lease-1", "ranges": [{"cluster": "eu", "topic": "orders", '
        '"partition": 0, "first": 5, "last": 9}], "bootstrap": {"eu": "eu:9092"}}'
    )
    assert Offset.of_json(json.loads(text)) == offset


def test_the_id_of_a_topic_outlives_the_checkpoint_and_one_that_has_none_reads_as_it_was() -> None:
    offset = Offset("job", "lease-1", (Range("eu", "orders", 0, 5, 9, "an-id"),))
    text = json.dumps(offset.to_json())
    assert '"last": 9, "topic_id": "an-id"}' in text
    assert json.dumps(Offset.of_json(json.loads(text)).to_json()) == text
    before = text.replace(', "topic_id": "an-id"', "")
    (without,) = Offset.of_json(json.loads(before)).ranges
    assert without.topic_id is None
    assert json.dumps(Offset.of_json(json.loads(before)).to_json()) == before, "Spark takes other text for new data"


def test_the_isolation_outlives_the_checkpoint_and_the_usual_one_reads_as_it_was() -> None:
    offset = Offset("job", "lease-1", (), (("eu", "eu:9092"),), "read_uncommitted")
    text = json.dumps(offset.to_json())
    assert text.endswith('"bootstrap": {"eu": "eu:9092"}, "isolation": "read_uncommitted"}')
    assert Offset.of_json(json.loads(text)) == offset
    before = text.replace(', "isolation": "read_uncommitted"', "")
    assert Offset.of_json(json.loads(before)).isolation == "read_committed"
    assert json.dumps(Offset.of_json(json.loads(before)).to_json()) == before


def test_a_checkpoint_of_another_source_is_refused() -> None:
    with pytest.raises(ForeignOffset, match="version 1"):
        Offset.of_json({"index": 3})


@given(ranges(), st.integers(1, 40))
def test_tasks_are_the_same_ranges_and_as_many_as_asked(whole: list[Range], least: int) -> None:
    cut = tasks(whole, least)
    assert [each for task in cut for each in task] == pieces(whole, least)
    assert len(cut) >= min(least, sum(map(len, whole)))
    assert all(cut)


def test_small_ranges_share_a_task_and_large_ones_do_not() -> None:
    small = [Range("eu", "orders", number, 0, 99) for number in range(60)]
    assert len(tasks(small, 1)) == 1
    assert len(tasks(small, 4)) == 4
    large = [Range("eu", "orders", number, 0, WORTH_A_TASK) for number in range(3)]
    assert len(tasks(large, 1)) == 3


def test_a_task_reads_one_cluster() -> None:
    both = [Range("eu", "orders", 0, 0, 9), Range("us", "orders", 0, 0, 9)]
    assert [{each.cluster for each in task} for task in tasks(both, 1)] == [{"eu"}, {"us"}]


@given(ranges(), ranges())
def test_what_is_left_of_ranges_without_others(some: list[Range], others: list[Range]) -> None:
    def offsets(of: list[Range]) -> set[tuple[object, int]]:
        return {(each.place, offset) for each in of for offset in (each.first, each.last)}

    left = without(some, others)
    assert without(left, others) == left
    assert without(some, some) == []
    assert sum(map(len, left)) + sum(map(len, without(some, left))) == sum(map(len, some))
    for place, offset in offsets(some):
        is_held = any(each.place == place and each.first <= offset <= each.last for each in others)
        assert any(each.place == place and each.first <= offset <= each.last for each in left) is not is_held
