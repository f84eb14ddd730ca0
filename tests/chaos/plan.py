"""The plan of a chaos run: a pure function of its seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import Enum

SECONDS_PER_STEP = 2.5
"""Approximate: a step waits for records, not for time."""


class Kind(Enum):
    """A kind of member: its client, and how it commits."""

    CONFLUENT = "confluent-kafka"
    KAFKA_PYTHON = "kafka-python"
    AIOKAFKA = "aiokafka"
    JAVA = "kafka-clients"
    KCAT = "kcat"
    AUTOMATIC = "confluent-kafka, by itself"
    AUTOMATIC_CONSUMER_PROTOCOL = "confluent-kafka, group.protocol=consumer, by itself"
    CONFLUENT_CONSUMER_PROTOCOL = "confluent-kafka, group.protocol=consumer"
    JAVA_CONSUMER_PROTOCOL = "kafka-clients, group.protocol=consumer"
    SHARE = "confluent-kafka, share consumer"

    @property
    def is_of_the_consumer_protocol(self) -> bool:
        """Its assignment grows without a revocation before, as in KIP-848."""
        return self in _CONSUMER_PROTOCOL.values()

    @property
    def commits_by_itself(self) -> bool:
        """Its library commits records that the application may not have seen yet: if it is killed, it loses records by
        its own fault."""
        return self in (Kind.KCAT, Kind.AUTOMATIC, Kind.AUTOMATIC_CONSUMER_PROTOCOL)


_CONSUMER_PROTOCOL = {
    Kind.AUTOMATIC: Kind.AUTOMATIC_CONSUMER_PROTOCOL,
    Kind.CONFLUENT: Kind.CONFLUENT_CONSUMER_PROTOCOL,
    Kind.JAVA: Kind.JAVA_CONSUMER_PROTOCOL,
}
"""The same clients, by the other protocol."""


class Fault(Enum):
    KILL_MEMBER = "kill -9 of a member"
    FREEZE_MEMBER = "a member hangs"
    CLOSE_MEMBER = "a member leaves"
    JOIN_MEMBER = "a member joins"
    REPLACE_ALL_MEMBERS = "all members leave, others come"
    KILL_MESH = "kill -9 of a mesh"
    FREEZE_MESH = "a mesh hangs"
    RESTART_MESH = "a mesh is restarted"
    KILL_BROKER = "kill -9 of a broker"
    FREEZE_BROKER = "a broker hangs"
    RESTART_BROKER = "a broker is restarted"
    CUT_CLIENTS = "the connections of clients are cut"
    SLOW_CLIENTS = "the connections of clients are slow"
    CUT_UPSTREAM = "the connections to a cluster are cut"
    SLOW_UPSTREAM = "the connections to a cluster are slow"
    GROW_TOPIC = "a topic grows"
    LOSE_LEADERS = "kill -9 of the broker that alone has some partitions"
    RECREATE_TOPIC = "a topic is deleted and created again"


_WEIGHTS = {
    Fault.KILL_MEMBER: 4,
    Fault.FREEZE_MEMBER: 3,
    Fault.CLOSE_MEMBER: 2,
    Fault.JOIN_MEMBER: 2,
    Fault.REPLACE_ALL_MEMBERS: 1,
    Fault.KILL_MESH: 3,
    Fault.FREEZE_MESH: 2,
    Fault.RESTART_MESH: 2,
    Fault.KILL_BROKER: 1,
    Fault.FREEZE_BROKER: 2,
    Fault.RESTART_BROKER: 1,
    Fault.CUT_CLIENTS: 2,
    Fault.SLOW_CLIENTS: 1,
    Fault.CUT_UPSTREAM: 2,
    Fault.SLOW_UPSTREAM: 1,
    Fault.GROW_TOPIC: 1,
}
_RARELY = 0.15
"""The part of steps with faults that need special setups."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step. target: an index among the present targets, modulo their number. after: records that members got since
    the previous step before it began. seconds: its duration, if it has one; other steps go on meanwhile."""

    number: int
    fault: Fault
    target: int
    after: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.number}: after {self.after} records, {self.fault.value} (#{self.target}), {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Setup:
    """meshes: processes of one pool. is_named: they have a process_id. knows_all: clients know the addresses of all of
    them, else each knows one. rate: records a second, of all clusters. poison: records that kill their members, stored
    at the beginning, and as many again when a quarter of the steps is left; with any, there are dead letters. replay:
    bytes that a pool keeps to send again. has_second_brokers: each cluster has two brokers, each partition one
    replica."""

    meshes: int
    is_named: bool
    knows_all: bool
    members: tuple[Kind, ...]
    partitions: int
    rate: int
    is_compacted: bool
    has_transactions: bool
    poison: int
    replay: int
    seconds_per_record: float
    has_second_brokers: bool = False

    def __str__(self) -> str:
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        said["members"] = [kind.value for kind in self.members]
        return ", ".join(f"{name} {value}" for name, value in said.items())


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    setup: Setup
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join((f"seed {self.seed}: {self.setup}", *(f"  {step}" for step in self.steps)))


def plan(seed: int, seconds: float) -> Plan:
    """The plan of a seed: always the same setup and the same steps."""
    chance = random.Random(seed)
    rarely = random.Random(seed + 3)
    setup = _with_second_brokers(_with_protocols(_setup(chance), random.Random(seed + 2)), rarely)
    setup = _with_share_members(setup, random.Random(seed + 4))
    faults = _with_rare_ones(_faults(random.Random(seed + 1)), setup, rarely)
    steps = tuple(
        _step(number, next(faults), chance, setup) for number in range(max(1, int(seconds / SECONDS_PER_STEP)))
    )
    return Plan(seed, setup, steps)


def _setup(chance: random.Random) -> Setup:
    members = [Kind.CONFLUENT, Kind.KAFKA_PYTHON, Kind.AIOKAFKA, Kind.JAVA]
    chance.shuffle(members)
    rest = chance.choices((Kind.KCAT, Kind.AUTOMATIC, Kind.CONFLUENT, Kind.AIOKAFKA), k=chance.choice((1, 2)))
    poison = chance.choice((0, 0, 0, 1))
    if poison:  # these would commit the poison instead of dying of it
        rest = [kind for kind in rest if not kind.commits_by_itself]
    meshes = chance.choice((1, 1, 2, 3))
    return Setup(
        meshes=meshes,
        is_named=chance.random() < 0.8,
        knows_all=meshes > 1 and chance.random() < 0.5,
        members=(*members, *rest),
        partitions=chance.choice((1, 2, 3)),
        rate=chance.choice((400, 800, 1_500)),
        is_compacted=chance.random() < 0.3,
        has_transactions=chance.random() < 0.6,
        poison=poison,
        replay=chance.choice((16 << 10, 1 << 20, 64 << 20)),
        seconds_per_record=chance.choice((0.0, 0.0005, 0.002)),
    )


def _with_protocols(setup: Setup, chance: random.Random) -> Setup:
    """Each member that can use the consumer protocol uses it, or does not."""
    members = (_CONSUMER_PROTOCOL.get(kind, kind) if chance.random() < 0.4 else kind for kind in setup.members)
    return replace(setup, members=tuple(members))


def _with_share_members(setup: Setup, chance: random.Random) -> Setup:
    """In half of the setups up to three members, or all but one, are share members."""
    if chance.random() < 0.5:
        return setup
    count = chance.choice((1, 2, 3, len(setup.members) - 1))
    return replace(setup, members=(*setup.members[: len(setup.members) - count], *[Kind.SHARE] * count))


def _with_second_brokers(setup: Setup, chance: random.Random) -> Setup:
    if chance.random() < 0.6:
        return setup
    return replace(setup, has_second_brokers=True, partitions=max(setup.partitions, 2))


def _with_rare_ones(faults: Iterator[Fault], setup: Setup, chance: random.Random) -> Iterator[Fault]:
    """Poison that is deleted with its topic does not become a dead letter."""
    rare = [
        *([Fault.LOSE_LEADERS] if setup.has_second_brokers else []),
        *([] if setup.poison else [Fault.RECREATE_TOPIC]),
    ]
    for fault in faults:
        is_rare, choice = chance.random() < _RARELY, chance.random()
        yield rare[int(choice * len(rare))] if is_rare and rare else fault


def _faults(chance: random.Random) -> Iterator[Fault]:
    """Shuffled bags, so that a short run has a mix as well."""
    while True:
        bag = [fault for fault, weight in _WEIGHTS.items() for _ in range(weight)]
        chance.shuffle(bag)
        yield from bag


def _step(number: int, fault: Fault, chance: random.Random, setup: Setup) -> Step:
    return Step(
        number,
        fault,
        target=chance.randrange(1_000),
        after=int(setup.rate * chance.uniform(0.3, 2.5)),
        seconds=round(chance.choice((0.5, 2.0, 4.0, 9.0)) * chance.uniform(0.7, 1.3), 1),
    )
