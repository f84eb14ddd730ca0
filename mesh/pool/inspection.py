"""A pool as people and tools look at it. Reads only; nothing here decides anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mesh.pool.common.ids import GroupId
from mesh.pool.common.results import TopicPartition
from mesh.pool.common.topics import VirtualTopics
from mesh.pool.distribution.obstacles import Obstacle
from mesh.pool.pool import Pool
from mesh.pool.state.acquired import Acquired
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Partition, PartitionFetch
from mesh.pool.state.window import Delivery
from mesh.records.batch import Batch, timestamps_of
from mesh.records.spans import ClusterName, UpstreamPartition

TASTES = "takes what is suspected of having killed members, one at a time, and nothing else"
IDLE = 2.0
"""Seconds after which a member without a parked Fetch is said not to fetch: between two Fetches it works."""


@dataclass(frozen=True, slots=True)
class Held:
    """The lowest offset that a member holds of a partition, since when (seconds), and its batch, if that is kept."""

    offset: int
    since: float
    batch: Batch | None


@dataclass(frozen=True, slots=True)
class Oldest:
    """The lowest un-acknowledged offset that somebody holds of a partition, who holds it, and since when (seconds)."""

    member: Member
    offset: int
    since: float


def oldest_held(member: Member, source: UpstreamPartition) -> Held | None:
    """What a member holds of a partition that has the lowest upstream offset."""
    if member.share is not None:
        holding = member.share.by_partition.get(source)
        acquired = holding.first() if holding is not None else None
        return Held(acquired.span.first, acquired.since, acquired.kept.batch) if acquired is not None else None
    window = member.windows.get(source)
    delivery = min(window, key=lambda each: each.first, default=None) if window is not None else None
    return Held(delivery.first, delivery.since, delivery.batch) if delivery is not None else None


def oldest_by_partition(pool: Pool) -> dict[UpstreamPartition, Oldest]:
    """Partitions of which nobody holds anything are left out."""
    found: dict[UpstreamPartition, Oldest] = {}
    for member in pool.members:
        for source in member.windows:
            held = oldest_held(member, source)
            if held is not None and (source not in found or held.offset < found[source].offset):
                found[source] = Oldest(member, held.offset, held.since)
    return found


def holding_commits(pool: Pool) -> dict[Member, float]:
    """The members for which the committed offset of a partition waits, and since when (seconds), the earliest."""
    found: dict[Member, float] = {}
    for source, oldest in oldest_by_partition(pool).items():
        partition = pool.partitions[source]
        if partition.is_active and oldest.offset == partition.ledger.committable:
            found[oldest.member] = min(oldest.since, found.get(oldest.member, oldest.since))
    return found


def attributed(pool: Pool, topics: VirtualTopics) -> dict[Member, list[TopicPartition]]:
    """Each partition to exactly one member, for tools that know of no more than that: to the one for which the
    committed offset waits; one that waits for nobody, to any of those that fetch it, in turn. Share members are none of
    those that such tools know."""
    shares: dict[Member, list[TopicPartition]] = {member: [] for member in pool.members if member.share is None}
    holders = oldest_by_partition(pool)
    fetching = sorted(shares, key=lambda member: member.name)
    turn = 0
    for source in sorted(pool.partitions):
        number = topics.number(source)
        if number is None:
            continue
        if source in holders and holders[source].member in shares:
            shares[holders[source].member].append(number)
        elif able := [member for member in fetching if source in member.windows]:
            shares[able[turn % len(able)]].append(number)
            turn += 1
    return shares


def is_consumer_group(pool: Pool) -> bool:
    """Whether a broker would call this group one of the consumer protocol: one such member is enough (KIP-848)."""
    memberships = pool.coordinator.members.values()
    return any(each.subscription is not None and not each.is_share for each in memberships)


def state_of(pool: Pool | None) -> str:
    """Kafka's name for it. Members of a pool never wait for each other, so there is no rebalancing state."""
    return "Stable" if pool is not None and any(True for _ in pool.members) else "Empty"


def share_members(pool: Pool) -> list[Member]:
    return [member for member in pool.members if member.share is not None]


def state_of_share_group(pool: Pool) -> str:
    """As `state_of`, of its share members."""
    return "Stable" if share_members(pool) else "Empty"


def is_share_group_only(pool: Pool) -> bool:
    """Whether it has share members, or had, and nobody else."""
    return pool.serving.has_share_members and all(member.share is not None for member in pool.members)


def unsettled_of(partition: Partition) -> int:
    """Offsets that are in the log, above what is stored, and not settled; -1 if that is not known here."""
    ledger = partition.ledger
    if not partition.is_active or ledger.stored.offset < 0:
        return -1
    end = max(partition.end, ledger.received)
    return sum(len(span) for span in ledger.unsettled(ledger.stored.offset, end - 1)) if end else 0


@dataclass(frozen=True, slots=True)
class MemberView:
    """Times in seconds. spans: runs of upstream offsets it holds. held_since: when it was sent the oldest of them.
    delivered: offsets it was ever sent, redelivered: those that had been sent before. committed_at: its last commit.
    cap: None for a share member. reason: why it gets nothing, in words; None while it gets what there is."""

    name: str
    client_id: str
    client_host: str
    instance_id: str | None
    connections: int
    protocol: str
    acknowledge: str
    records: int
    spans: int
    cap: int | None
    delivered: int
    redelivered: int
    committed_at: float | None
    held_since: float | None
    heard: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition, in upstream terms. ownership: as in `Ownership`, or "unopened": it is ours and cannot be read yet.
    committed, lag: None where this process does not know, for the partition is not its own now.
    oldest: the lowest offset that is not acknowledged and was received; None if there is none.
    holder: who holds it; None while it waits. oldest_since: since when it is held. timestamp: of its batch, ms."""

    name: TopicPartition
    source: UpstreamPartition
    ownership: str
    committed: int | None
    end: int
    lag: int | None
    backlog: int
    oldest: int | None
    holder: str | None
    oldest_since: float | None
    timestamp: int | None
    is_down: bool


@dataclass(frozen=True, slots=True)
class PoolView:
    group: str
    state: str
    members: tuple[MemberView, ...]
    partitions: tuple[PartitionView, ...]


def view(pool: Pool, topics: VirtualTopics, now: float) -> PoolView:
    holders = oldest_by_partition(pool)
    partitions = (
        _partition(pool, source, number, holders.get(source))
        for source in sorted(pool.partitions)
        for number in [topics.number(source)]
        if number is not None
    )
    return PoolView(
        pool.group,
        state_of(pool),
        tuple(_member(pool, member, now) for member in sorted(pool.members, key=lambda member: member.name)),
        tuple(partitions),
    )


def why_nothing(pool: Pool, member: Member, now: float) -> str | None:
    """Why a member is given nothing now, by the distribution's own decision; None while it is given what there is."""
    if not member.has_fetched:
        return "has not fetched yet"
    if not member.parked:
        return None if now - member.heard < IDLE else "does not fetch"
    reasons = {
        _reason_of_lane(pool, member, fetch, partition_fetch)
        for fetch in pool.serving.distribution.parked.of(member)
        for partition_fetch in fetch.partition_fetches
    }
    return "; ".join(sorted(reasons)) or "asks for no partition"


def _reason_of_lane(pool: Pool, member: Member, fetch: Fetch, partition_fetch: PartitionFetch) -> str:
    obstacle = pool.serving.distribution.obstacle(member, partition_fetch)
    partition = partition_fetch.partition
    is_down = pool.commits.is_down(partition.source.cluster)
    match obstacle:
        case Obstacle.AT_CAP if member.flow.never_committed:
            return f"{obstacle.value}, never committed"
        case Obstacle.NOT_ASSIGNED | Obstacle.READ_AGAIN if is_down:
            return f"source {partition.source.cluster} is down"
        case Obstacle.NOT_ASSIGNED if partition.is_unopened:
            return "partition cannot be opened"
        case Obstacle():
            return obstacle.value
        case None:
            pass
    if pool.serving.distribution.quarantine.is_on_trial(member):
        return TASTES
    if fetch in partition.ineligible:
        return "what is there is kept for other members" if not partition.is_full else "acknowledgements have gaps"
    if is_down:
        return f"source {partition.source.cluster} is down"
    if partition.ledger.received >= partition.end:
        return "no backlog"
    stalled = partition.source in pool.stalls
    return "records are there upstream, but do not come" if stalled else "records are on their way"


def _member(pool: Pool, member: Member, now: float) -> MemberView:
    membership = pool.coordinator.members.get(member.id)
    held: list[Delivery | Acquired] = [delivery for window in member.windows.values() for delivery in window]
    protocol = "none"
    if member.share is not None:
        protocol = "share"
        held += [acquired for holding in member.share.by_partition.values() for acquired in holding]
    elif membership is not None:
        protocol = "classic" if membership.subscription is None else "consumer"
    return MemberView(
        name=member.name,
        client_id=member.client.id,
        client_host=member.client.host,
        instance_id=member.instance_id,
        connections=len(member.connections),
        protocol=protocol,
        acknowledge=member.acknowledge.value,
        records=member.in_flight,
        spans=len(held),
        cap=member.flow.cap if member.share is None else None,
        delivered=member.delivered,
        redelivered=member.redelivered,
        committed_at=member.flow.committed_at,
        held_since=min((each.since for each in held), default=None),
        heard=member.heard,
        reason=why_nothing(pool, member, now),
    )


def _partition(pool: Pool, source: UpstreamPartition, number: TopicPartition, held: Oldest | None) -> PartitionView:
    partition = pool.partitions[source]
    ledger = partition.ledger
    oldest = ledger.committable if partition.is_active and ledger.committable < ledger.received else None
    is_held = held is not None and held.offset == oldest
    batch = None
    if is_held and held is not None:
        delivery = oldest_held(held.member, source)
        batch = delivery.batch if delivery is not None else None
    elif partition.backlog:
        batch = partition.backlog.peekitem(0)[1].batch
    return PartitionView(
        name=number,
        source=source,
        ownership="unopened" if partition.is_unopened else partition.ownership.value,
        committed=ledger.stored.offset if partition.is_active and ledger.stored.offset >= 0 else None,
        end=partition.end,
        lag=partition.lag if partition.is_active else None,
        backlog=sum(len(available) for available in partition.backlog.values()),
        oldest=oldest,
        holder=held.member.name if held is not None and is_held else None,
        oldest_since=held.since if held is not None and is_held else None,
        timestamp=timestamps_of(batch)[0] if batch is not None and oldest is not None else None,
        is_down=pool.commits.is_down(source.cluster),
    )


def known_ends(pools: Mapping[GroupId, Pool], source: UpstreamPartition) -> int | None:
    """How far a log goes as far as any pool knows; for when its cluster does not answer."""
    ends = [pool.partitions[source].end for pool in pools.values() if source in pool.partitions]
    return max((end for end in ends if end > 0), default=None)


def known_positions(pool: Pool, cluster: ClusterName) -> Iterator[tuple[UpstreamPartition, int]]:
    """What is known to be committed on a cluster that does not answer."""
    for source, partition in pool.partitions.items():
        if source.cluster == cluster and partition.is_active and partition.ledger.stored.offset >= 0:
            yield source, partition.ledger.stored.offset
