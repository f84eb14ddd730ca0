"""Tags on producer ids that one cluster has allocated and another cluster gets in batches.

Clusters count producer ids from 0, so two clusters allocate the same ids. A broker that has seen a sequence number of a
producer id takes a batch with that number for a repeated one: it acknowledges the batch without writing it. Brokers
accept any non-negative id. So the id itself contains a tag of the cluster that allocated it, its home, and no state is
needed: a bit that is 1, 14 bits of tag, 48 bits of id.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from typing import Final

from mesh.records.spans import ClusterName

TAG_BITS: Final = 14
_ID_BITS: Final = 48
_TAGGED: Final = 1 << _ID_BITS + TAG_BITS


class ProducerIdTooLarge(ValueError):
    """A producer id that leaves no room for a tag: it has more than 48 bits, or a tag already."""


def tag_of(cluster_id: str) -> int:
    """Returns the tag of a home, computed from its cluster id: the same in every process, at any time."""
    return int.from_bytes(hashlib.sha256(cluster_id.encode()).digest()[:2], "big") >> 16 - TAG_BITS


def tagged(tag: int, producer_id: int) -> int:
    """Returns the producer id with a tag, for other clusters than its home. Ids below 0 mean no producer, and stay the
    same. Raises ProducerIdTooLarge."""
    if producer_id < 0:
        return producer_id
    if producer_id >> _ID_BITS:
        raise ProducerIdTooLarge(f"producer id {producer_id}: there is room for {_ID_BITS} bits beside the tag")
    return _TAGGED | tag << _ID_BITS | producer_id


def untagged(tag: int, producer_id: int) -> int | None:
    """Returns the producer id without its tag, as its home allocated it; None if it does not have this tag."""
    if producer_id < 0 or producer_id >> _ID_BITS != 1 << TAG_BITS | tag:
        return None
    return producer_id & (1 << _ID_BITS) - 1


def equal_tags(tags: Mapping[ClusterName, int]) -> tuple[tuple[ClusterName, ClusterName], ...]:
    """Returns pairs of clusters whose tags are equal. They cannot both be homes of producers that write to a third
    cluster."""
    pairs = itertools.combinations(tags.items(), 2)
    return tuple((left, right) for (left, one), (right, other) in pairs if one == other)
