"""Producer ids that one cluster gave and another is written with: each carries a tag of its home.

Clusters count their producer ids from 0, so two of them give the same. A broker that finds a sequence number of such
an id that it has seen takes a batch for a repeated one: it acknowledges it, and does not write it. Brokers take any id
that is not negative, so the tag stands in the id itself and nothing has to be remembered: 1, 14 bits of tag, 48 bits
of id.
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
    """A producer id that has no room for a tag: above 48 bits, or tagged already."""


def tag_of(cluster_id: str) -> int:
    """The tag of a home, from the id that the cluster gave itself: the same in every process, at any time."""
    return int.from_bytes(hashlib.sha256(cluster_id.encode()).digest()[:2], "big") >> 16 - TAG_BITS


def tagged(tag: int, producer_id: int) -> int:
    """The id that other clusters are written with; one below 0 means no producer, and stays. Raises
    ProducerIdTooLarge."""
    if producer_id < 0:
        return producer_id
    if producer_id >> _ID_BITS:
        raise ProducerIdTooLarge(f"producer id {producer_id}: there is room for {_ID_BITS} bits beside the tag")
    return _TAGGED | tag << _ID_BITS | producer_id


def untagged(tag: int, producer_id: int) -> int | None:
    """The id that the home of this tag gave; None: it is not one of this home's."""
    if producer_id < 0 or producer_id >> _ID_BITS != 1 << TAG_BITS | tag:
        return None
    return producer_id & (1 << _ID_BITS) - 1


def equal_tags(tags: Mapping[ClusterName, int]) -> tuple[tuple[ClusterName, ClusterName], ...]:
    """Clusters that cannot both be homes of producers who write to a third: pairs with one tag. tags: by cluster."""
    pairs = itertools.combinations(tags.items(), 2)
    return tuple((left, right) for (left, one), (right, other) in pairs if one == other)
