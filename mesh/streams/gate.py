"""Decides whether to ask a member for the description of its topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mesh.streams.epochs import Epochs

STALE_TOPOLOGY: Final = 0
"""A status in the response to a heartbeat: the member's topology is older than that of its group."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat that was answered.

    version: the version of the request. member_epoch: the epoch in the request; a member that leaves sends a negative
    one. error: the error code of the response. statuses: the codes of the statuses in the response.
    """

    version: int
    member_epoch: int
    error: int
    statuses: frozenset[int]


def may_be_asked(heartbeat: Heartbeat) -> bool:
    """True if the member may be asked for a description in this response."""
    is_well = heartbeat.error == 0 and heartbeat.member_epoch >= 0
    return heartbeat.version >= 1 and is_well and STALE_TOPOLOGY not in heartbeat.statuses


def is_missing(current: int, epochs: Epochs) -> bool:
    """True if the description of the current topology is neither stored nor refused for good."""
    return current >= 0 and current not in (epochs.stored, epochs.failed)
