"""The settings of a pool, from the configuration. Times are in seconds, sizes in bytes, windows in offsets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from mesh.pool.common.history import FOR_EVER, Redelivery
from mesh.pool.common.sharing import EQUAL, Sharing


class Policy(Enum):
    """The policy that chooses the member for the next batch."""

    LEAST_LOADED = "least_loaded"
    ROUND_ROBIN = "round_robin"
    OLDEST_FIRST = "oldest_first"


class Acknowledge(Enum):
    """The way in which a record is settled. COMMIT: by the member's commit. RECEIPT: by the member's next Fetch, which
    is weaker since receipt is not processing."""

    COMMIT = "commit"
    RECEIPT = "receipt"


class ShareStart(Enum):
    """The start of a group without committed offsets, if a share member is the first to ask. POOL: the start for other
    members."""

    LATEST = "latest"
    EARLIEST = "earliest"
    POOL = "pool"


BY_DURATION: Final = "by_duration:"
_ISO_8601: Final = re.compile(
    r"P(?=.)(?:(?P<days>\d{1,6})D)?"
    r"(?:T(?=.)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


@dataclass(frozen=True, slots=True)
class ByDuration:
    """A start of a group this many seconds before now (KIP-1106). text: an ISO 8601 duration without months and
    years."""

    text: str
    seconds: float

    @property
    def value(self) -> str:
        """The value as Kafka writes it."""
        return BY_DURATION + self.text

    @classmethod
    def parse(cls, value: str) -> ByDuration:
        """Parses `by_duration:PnDTnHnMnS`. Raises ValueError."""
        text = value.removeprefix(BY_DURATION)
        found = _ISO_8601.fullmatch(text) if value.startswith(BY_DURATION) else None
        if found is None:
            raise ValueError(f"{value!r} is not allowed: earliest, latest or by_duration:PnDTnHnMnS")
        return cls(text, sum(float(number) * _SECONDS[unit] for unit, number in found.groupdict("0").items()))


ShareIsolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """The settings of share members (KIP-932).

    * start: where a group without committed offsets begins. isolation: the isolation level of a group that they begin.
    * lock: seconds for which a member holds acquired records. shortest_lock, longest_lock: its bounds.
    * delivery_limit: the most deliveries of a record.
    * most_locks: the most acquired offsets of one partition.
    * may_renew: whether members may renew their locks.
    * is_mixed: whether members of other kinds may be in the same group.
    * most_sessions: the most share sessions of one virtual cluster.
    """

    start: ShareStart | ByDuration = ShareStart.LATEST
    isolation: ShareIsolation = "read_committed"
    lock: float = 30.0
    shortest_lock: float = 15.0
    longest_lock: float = 60.0
    delivery_limit: int = 5
    most_locks: int = 2_000
    may_renew: bool = True
    is_mixed: bool = True
    most_sessions: int = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    policy: Policy = Policy.LEAST_LOADED
    initial_window: int = 500
    maximum_window: int = 50_000_000
    partition_budget: int = 4 << 20
    pool_budget: int = 64 << 20
    replay_budget: int = 8 << 20
    join_delay: float = 0.2
    fast_expiry: float = 3.0
    lock_timeout: float = 300.0
    hold_timeout: float = 1_800.0
    commit_timeout: float = 3.0
    redelivery: Redelivery = FOR_EVER
    metadata_limit: int = 4_000
    """The most characters of metadata in each upstream commit, for acknowledgements above the committed offset."""
    session_minimum: float = 6.0
    session_maximum: float = 1_800.0
    max_members: int = 10_000
    linger: float = 1.0
    """Seconds that a pool without members stays in the upstream group, so that a restarted member finds it."""
    others_first: float = 2.0
    """Seconds for which spans taken from a living member are reserved for other members."""
    hung_after: float = 3.0
    """Seconds without a request after which a member may have lost its connection unnoticed."""
    unused_after: float = 30.0
    """Seconds without a Fetch after which a pool may be closed to make room for another group, if there are too
    many."""
    unidentified_grace: float = 10.0
    """Seconds that a Fetch with offsets of an earlier process waits for its group to join again."""
    epoch: float = 0.0
    """Seconds between 1970-01-01 and the zero of the pool's clock, for times that are stored upstream."""
    journal: bool = False
    """True if there is a journal, so that decisions make delivery events."""
    batch_every: int = 0
    """One in this many events of deliveries carries the batch; 0 for none."""
    share: ShareSettings = ShareSettings()
    sharing: Sharing = EQUAL
    """The weights, limits and priorities at the time when the pool was made."""
    presence: float = 30.0
    """Seconds that a pool without members stays in the upstream group after the last request of a lease holder."""
