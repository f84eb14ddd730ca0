"""Why a range cannot be read."""

from __future__ import annotations

from pyspark_kafka_mesh.offsets import Range

GIVE_UP_AFTER = 120.0
"""Seconds without any record or answer."""
_GO_ON = "failOnDataLoss=false goes on without it"


class DataLost(RuntimeError):
    """Some of a range is not there any more upstream."""


class ReadFailed(RuntimeError):
    """The upstream cluster refuses, or does not answer, or what it answers cannot be read."""


def gone(piece: Range, why: str) -> str:
    return f"the beginning of {piece} is not there any more: {why}. {_GO_ON}"


def shortened(piece: Range, end: int) -> str:
    return f"the end of {piece} is not there any more: its log ends at {end}. {_GO_ON}"
