"""The reasons why a range cannot be read."""

from __future__ import annotations

from pyspark_kafka_mesh.offsets import Range

GIVE_UP_AFTER = 120.0
"""Seconds without a record or an answer."""
_GO_ON = "failOnDataLoss=false goes on without it"


class DataLost(RuntimeError):
    """Raised when a part of a range is gone upstream."""


class ReadFailed(RuntimeError):
    """Raised when the upstream cluster refuses, does not answer, or sends an unreadable answer."""


def gone(piece: Range, why: str) -> str:
    return f"the beginning of {piece} is not there any more: {why}. {_GO_ON}"


def shortened(piece: Range, end: int) -> str:
    return f"the end of {piece} is not there any more: its log ends at {end}. {_GO_ON}"
