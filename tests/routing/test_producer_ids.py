"""Tags of producer ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records.spans import ClusterName
from mesh.routing.producer_ids import TAG_BITS, ProducerIdTooLarge, equal_tags, tag_of, tagged, untagged

TAGS = st.integers(0, (1 << TAG_BITS) - 1)
IDS = st.integers(0, (1 << 48) - 1)


@given(TAGS, IDS, TAGS)
def test_an_id_comes_back_at_its_home_only(tag: int, producer_id: int, other: int) -> None:
    shown = tagged(tag, producer_id)
    assert 1 << 62 <= shown < 1 << 63
    assert untagged(tag, shown) == producer_id
    assert untagged(other, shown) == (producer_id if other == tag else None)
    assert untagged(tag, producer_id) is None


@given(TAGS, st.integers(-(1 << 63), -1))
def test_no_producer_stays_no_producer(tag: int, producer_id: int) -> None:
    assert tagged(tag, producer_id) == producer_id
    assert untagged(tag, producer_id) is None


@pytest.mark.parametrize("producer_id", [1 << 48, tagged(3, 5)])
def test_an_id_without_room(producer_id: int) -> None:
    with pytest.raises(ProducerIdTooLarge, match=str(producer_id)):
        tagged(3, producer_id)


def test_the_tag_of_a_cluster_is_the_same_everywhere() -> None:
    """The same in every version: logs contain ids that producers have written with it."""
    assert tag_of("MkU3OEVBNTcwNTJENDM2Qg") == 5756
    assert len({tag_of(str(number)) for number in range(1000)}) > 900


def test_clusters_with_one_tag() -> None:
    a, b, c, d = map(ClusterName, "abcd")
    assert equal_tags({a: 1, b: 2, c: 1, d: 2}) == ((a, c), (b, d))
    assert equal_tags({a: 1, b: 2}) == ()
