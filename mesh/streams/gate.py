"""Whether a member is asked for the description of its topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mesh.streams.epochs import Epochs

STALE_TOPOLOGY: Final = 0
"""A status in the answer to a heartbeat: the member has an older topology than its group."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat that was answered. version: of the request. member_epoch: that of the request, negative for one that
    leaves. error: of the answer. statuses: codes of the answer's statuses."""

    version: int
    member_epoch: int
    error: int
    statuses: frozenset[int]


def may_be_asked(heartbeat: Heartbeat) -> bool:
    """As far as the heartbeat says."""
    is_well = heartbeat.error == 0 and heartbeat.member_epoch >= 0
    return heartbeat.version >= 1 and is_well and STALE_TOPOLOGY not in heartbeat.statuses


def is_missing(current: int, epochs: Epochs) -> bool:
    """Whether the description of the current topology is neither stored nor refused for good."""
    return current >= 0 and current not in (epochs.stored, epochs.failed)
