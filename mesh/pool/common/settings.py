"""What a pool is told by the configuration. Times in seconds, sizes in bytes, windows in offsets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from mesh.pool.common.history import FOR_EVER, Redelivery


class Policy(Enum):
    """Who gets the next batch when several members wait for it."""

    LEAST_LOADED = "least_loaded"
    ROUND_ROBIN = "round_robin"
    OLDEST_FIRST = "oldest_first"


class Acknowledge(Enum):
    """What settles a record: the member's commit, or its next Fetch (weaker: receipt is not processing)."""

    COMMIT = "commit"
    RECEIPT = "receipt"


class ShareStart(Enum):
    """Where a group begins that has committed nothing, and of which a share member asks first. POOL: where any other
    does."""

    LATEST = "latest"
    EARLIEST = "earliest"
    POOL = "pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """What share members may have (KIP-932). lock: seconds for which a member has what it acquires. delivery_limit: how
    often a record is delivered. most_locks: offsets of one partition that are acquired at the same time. may_renew:
    whether members may renew their locks. most_sessions: share sessions of one virtual cluster."""

    start: ShareStart = ShareStart.LATEST
    lock: float = 30.0
    delivery_limit: int = 5
    most_locks: int = 2_000
    may_renew: bool = True
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
    """Characters of acknowledgements above the committed offset in each upstream commit."""
    session_minimum: float = 6.0
    session_maximum: float = 1_800.0
    max_members: int = 10_000
    linger: float = 1.0
    """How long a pool without members stays in the upstream group: a member that restarts finds it there."""
    others_first: float = 2.0
    """How long spans taken from a member that lives on are kept for the others."""
    hung_after: float = 3.0
    """After which a member that asks for nothing may have lost its connection without either side having noticed."""
    gives_way: float = 30.0
    """How long nobody has fetched in a pool that gives way to another group when there are too many pools."""
    unidentified_grace: float = 10.0
    """How long a Fetch with offsets of an earlier run is kept waiting for its group to join again."""
    epoch: float = 0.0
    """Seconds to add to the pool's clock for the time of day since 1970: what is kept upstream outlives that clock."""
    journal: bool = False
    """Whether a journal is kept: decisions leave delivery events."""
    share: ShareSettings = ShareSettings()
    presence: float = 30.0
    """How long a pool without members stays in the upstream group after a holder of leases was last heard."""
