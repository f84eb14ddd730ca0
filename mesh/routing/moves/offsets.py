"""The offsets of groups when a topic is moved: each offset is committed on the target too, with the same number."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.routing.moves.move import UnacceptedOffset, UnacceptedOffsets
from mesh.wire.trees import Tree

NONE_STORED = -1


def committed(answer: Tree, topic: str) -> dict[int, int]:
    """Returns the committed offsets of a group by partition. answer: the part of an OffsetFetch answer for this
    group."""
    return {
        each["partition_index"]: each["committed_offset"]
        for topic_answer in answer["topics"]
        if topic_answer["name"] == topic
        for each in topic_answer["partitions"]
        if each["committed_offset"] >= 0
    }


def unaccepted_of(refused: Mapping[int, int], stored: Mapping[int, int]) -> dict[int, UnacceptedOffset]:
    """Returns the offsets that only the move knows. refused: the offsets that the target did not accept. stored: the
    offsets that the target has instead."""
    return {
        partition: UnacceptedOffset(offset, stored.get(partition, NONE_STORED))
        for partition, offset in refused.items()
        if stored.get(partition, NONE_STORED) != offset
    }


def offset_of(carried: UnacceptedOffsets, group: str, partition: int, stored: int) -> int:
    """Returns the offset of a group. stored: the offset that the cluster has; -1 for none."""
    each = carried.get(group, {}).get(partition)
    return each.offset if each is not None and each.was == stored else stored
