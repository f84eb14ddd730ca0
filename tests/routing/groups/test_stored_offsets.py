"""What is remembered of stored offsets is bounded, and the last of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.routing.groups.stored_offsets import Place, StoredOffset, StoredOffsets

PLACES = [Place(topic, partition) for topic in ("a", "b") for partition in (0, 1)]


def stored(offset: int, metadata: str = "") -> StoredOffset:
    return StoredOffset(offset, -1, metadata)


def test_the_last_one_counts_until_it_is_gone() -> None:
    offsets = StoredOffsets()
    offsets.saw("g", [(PLACES[0], stored(1)), (PLACES[1], stored(2))])
    offsets.saw("g", [(PLACES[0], stored(3))])
    assert offsets.of("g") == {PLACES[0]: stored(3), PLACES[1]: stored(2)}
    offsets.gone("g", [PLACES[0], PLACES[3]])
    assert offsets.of("g") == {PLACES[1]: stored(2)}
    assert (offsets.of("other"), "g" in offsets, "other" in offsets) == ({}, True, False)
    offsets.forget("g")
    assert "g" not in offsets


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(PLACES), st.text(max_size=200)), max_size=40))
def test_there_is_room_for_so_much_and_who_was_used_last_stays(steps: list[tuple[str, Place, str]]) -> None:
    offsets = StoredOffsets(most_bytes=2_000)
    for group, place, metadata in steps:
        offsets.saw(group, [(place, stored(1, metadata))])
        kept = [each for name in "xyz" if name in offsets for each in offsets.of(name).values()]
        assert sum(each.size for each in kept) <= 2_000
        assert offsets._size == sum(each.size for each in kept)
    if steps:
        offsets.saw(steps[-1][0], [(PLACES[0], stored(1))])
        assert offsets.of(steps[-1][0])[PLACES[0]] == stored(1) or steps[-1][0] not in offsets
