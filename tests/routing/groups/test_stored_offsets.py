"""The memory of stored offsets is bounded, and has the last offset of each partition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.routing.groups.stored_offsets import StoredOffset, StoredOffsets, TopicPartition

PLACES = [TopicPartition(topic, partition) for topic in ("a", "b") for partition in (0, 1)]


def stored(offset: int, metadata: str = "") -> StoredOffset:
    return StoredOffset(offset, -1, metadata)


def test_the_last_one_counts_until_it_is_gone() -> None:
    offsets = StoredOffsets()
    offsets.remember("g", [(PLACES[0], stored(1)), (PLACES[1], stored(2))])
    offsets.remember("g", [(PLACES[0], stored(3))])
    assert offsets.get("g") == {PLACES[0]: stored(3), PLACES[1]: stored(2)}
    offsets.forget_partitions("g", [PLACES[0], PLACES[3]])
    assert offsets.get("g") == {PLACES[1]: stored(2)}
    assert (offsets.get("other"), "g" in offsets, "other" in offsets) == ({}, True, False)
    offsets.forget("g")
    assert "g" not in offsets


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(PLACES), st.text(max_size=200)), max_size=40))
def test_room_is_bounded_and_the_last_used_stay(steps: list[tuple[str, TopicPartition, str]]) -> None:
    offsets = StoredOffsets(most_bytes=2_000)
    for group, place, metadata in steps:
        offsets.remember(group, [(place, stored(1, metadata))])
        kept = [each for name in "xyz" if name in offsets for each in offsets.get(name).values()]
        assert sum(each.size for each in kept) <= 2_000
        assert offsets._size == sum(each.size for each in kept)
    if steps:
        offsets.remember(steps[-1][0], [(PLACES[0], stored(1))])
        assert offsets.get(steps[-1][0])[PLACES[0]] == stored(1) or steps[-1][0] not in offsets
