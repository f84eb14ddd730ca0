"""Views of a pool for people and tools. This module only reads; it decides nothing."""

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
from mesh.records.batch import RecordBatch, timestamps_of
from mesh.records.spans import ClusterName, UpstreamPartition

ONLY_SUSPECTED = "gets only records suspected of killing members, one at a time"
IDLE = 2.0
"""Seconds without a parked Fetch after which a member counts as not fetching. A shorter pause means that it processes
records."""


@dataclass(frozen=True, slots=True)
class Held:
    """The lowest upstream offset that a member holds of a partition. since: when the member got it, in seconds. batch:
    its batch, None if the bytes were dropped."""

    offset: int
    since: float
    batch: RecordBatch | None


@dataclass(frozen=True, slots=True)
class Oldest:
    """The lowest unacknowledged upstream offset of a partition, with the member that holds it. since: when that member
    got it, in seconds."""

    member: Member
    offset: int
    since: float


def oldest_held(member: Member, source: UpstreamPartition) -> Held | None:
    """Returns the records with the lowest upstream offset that a member holds of a partition."""
    if member.share is not None:
        holding = member.share.by_partition.get(source)
        acquired = holding.first() if holding is not None else None
        return Held(acquired.span.first, acquired.since, acquired.kept.batch) if acquired is not None else None
    window = member.windows.get(source)
    delivery = min(window, key=lambda each: each.first, default=None) if window is not None else None
    return Held(delivery.first, delivery.since, delivery.batch) if delivery is not None else None


def oldest_by_partition(pool: Pool) -> dict[UpstreamPartition, Oldest]:
    """Returns the lowest held offset of each partition in which members hold records."""
    found: dict[UpstreamPartition, Oldest] = {}
    for member in pool.members:
        for source in member.windows:
            held = oldest_held(member, source)
            if held is not None and (source not in found or held.offset < found[source].offset):
                found[source] = Oldest(member, held.offset, held.since)
    return found


def holding_commits(pool: Pool) -> dict[Member, float]:
    """Returns the members that hold up the committed offset of a partition, each with the earliest time at which it got
    such records, in seconds."""
    found: dict[Member, float] = {}
    for source, oldest in oldest_by_partition(pool).items():
        partition = pool.partitions[source]
        if partition.is_active and oldest.offset == partition.ledger.committable:
            found[oldest.member] = min(oldest.since, found.get(oldest.member, oldest.since))
    return found


def attributed(pool: Pool, topics: VirtualTopics) -> dict[Member, list[TopicPartition]]:
    """Assigns each partition to exactly one member, for tools that know only such assignments. It is the member that
    holds up the committed offset, or else one of those that fetch the partition, in turn. Share members are left out:
    such tools do not know them."""
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
    """Returns whether a broker would call this a group of the consumer protocol: one such member is enough
    (KIP-848)."""
    memberships = pool.coordinator.members.values()
    return any(each.subscription is not None and not each.is_share for each in memberships)


def state_of(pool: Pool | None) -> str:
    """Returns Kafka's name for the state of a group. Members of a pool never wait for each other, so it is never
    rebalancing."""
    return "Stable" if pool is not None and any(True for _ in pool.members) else "Empty"


def share_members(pool: Pool) -> list[Member]:
    return [member for member in pool.members if member.share is not None]


def state_of_share_group(pool: Pool | None) -> str:
    """Returns Kafka's name for the state of a share group."""
    return "Stable" if pool is not None and share_members(pool) else "Empty"


def is_share_group_only(pool: Pool) -> bool:
    """Returns whether the pool has, or had, share members, and has no other members."""
    return pool.serving.has_share_members and all(member.share is not None for member in pool.members)


def unsettled_of(partition: Partition) -> int:
    """Returns the number of unsettled offsets between the stored position and the end of the log. It is -1 if this
    process does not know."""
    ledger = partition.ledger
    if not partition.is_active or ledger.stored.offset < 0:
        return -1
    end = max(partition.end, ledger.received)
    return sum(len(span) for span in ledger.unsettled(ledger.stored.offset, end - 1)) if end else 0


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member as operators see it. Times are in seconds.

    * spans: the number of runs of upstream offsets that it holds.
    * held_since: when it got the oldest of these runs.
    * delivered: the number of offsets that it ever got. redelivered: those of them that were delivered before.
    * committed_at: the time of its last commit.
    * cap: the most offsets that it may hold; None for a share member.
    * reason: why it gets no records; None while it gets all available ones.
    """

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
    """A partition of a pool as operators see it.

    * ownership: a value of `Ownership`, or "unopened" for a partition that is assigned but cannot be read yet.
    * committed, lag: None if this process does not know them because it does not own the partition.
    * oldest: the lowest received upstream offset that is not acknowledged; None if there is none.
    * holder: the member that holds `oldest`; None if no member does. oldest_since: when that member got it, in seconds.
    * timestamp: the timestamp of the batch with `oldest`, in ms.
    """

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
    """Returns the reason why a member gets no records now, as the distribution decides it. None while it gets all
    available ones."""
    if not member.has_fetched:
        return "has not fetched yet"
    if not member.parked:
        return None if now - member.heard_at < IDLE else "does not fetch"
    reasons = {
        _reason_of_partition_fetch(pool, member, fetch, partition_fetch)
        for fetch in pool.serving.distribution.parked.of(member)
        for partition_fetch in fetch.partition_fetches
    }
    return "; ".join(sorted(reasons)) or "asks for no partition"


def _reason_of_partition_fetch(pool: Pool, member: Member, fetch: Fetch, partition_fetch: PartitionFetch) -> str:
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
        return ONLY_SUSPECTED
    if fetch in partition.ineligible:
        return "records are reserved for other members" if not partition.is_full else "acknowledgements have gaps"
    if is_down:
        return f"source {partition.source.cluster} is down"
    if partition.ledger.received >= partition.end:
        return "no backlog"
    stalled = partition.source in pool.stalls
    return "records upstream, but none arrive" if stalled else "records are on their way"


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
        heard=member.heard_at,
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
    """Returns the end of a log as far as any pool knows it, for a cluster that does not answer."""
    ends = [pool.partitions[source].end for pool in pools.values() if source in pool.partitions]
    return max((end for end in ends if end > 0), default=None)


def known_positions(pool: Pool, cluster: ClusterName) -> Iterator[tuple[UpstreamPartition, int]]:
    """Returns the known committed offsets in a cluster that does not answer."""
    for source, partition in pool.partitions.items():
        if source.cluster == cluster and partition.is_active and partition.ledger.stored.offset >= 0:
            yield source, partition.ledger.stored.offset
