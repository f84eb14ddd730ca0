"""Hostile requests against the whole server, in a child process.

    python -m tests.listener.fuzz --seed 7 --requests 1000000        through handlers and pools, without sockets
    python -m tests.listener.fuzz --sockets --requests 200000        over real sockets, beside a well-behaved client

Half of the requests are well formed, and name groups, members, topics and offsets that exist, or nearly; the others
have flipped bits and replaced numbers (`tests.wire.fuzz`), or make no sense. Time passes, records come, connections
die. A handler that fails, a pool that contradicts itself, or an exception anywhere ends the run.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

import structlog
import uvloop

from mesh.listener.limits import Limits
from mesh.listener.requests import Requests
from mesh.pool.common.group_configs import GROUP_CONFIGS
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import PoolSettings
from mesh.records.spans import TopicName, UpstreamPartition
from mesh.wire.apis import ApiKey
from tests.fake_time import FakeTimeLoop
from tests.pool.apis.messages import request
from tests.pool.harness import GROUP, MAXIMUM
from tests.runtime.pool.harness import Bench, Peer
from tests.wire.entities import ALL_VERSIONS, frame
from tests.wire.fuzz import hostile_request, mutated, resident_kib

MAX_GROWTH_KIB = 128 * 1024
"""The most growth of the child: pools, windows and metrics of some hundred groups."""
CHECKPOINT = 100_000
"""Requests after which all clients leave. Memory that is still used then is kept for ever."""
MAX_KEPT = 2_000
"""The most memory blocks above the last checkpoint, from the second one on: a name in a label here and there."""
CORPUS = 1_500
"""Well-formed requests made together from the present state; building them is the slowest part."""
RENEWED_AFTER = 5_000
UNRATIONED = Limits(request_rate=1 << 40, request_rate_per_address=1 << 40)
CROWDED = Limits(connections=12_000, connections_per_address=10_500)
"""The usual limits, with as many connections as a test opens."""
STRANGE = (0, -1, 4, 2**31 - 1, -(2**31))


class Generator:
    """Makes requests about existing, or nearly existing, groups and topics of a bench."""

    def __init__(self, random: Random, bench: Bench) -> None:
        self._random = random
        self._bench = bench
        self._corpus: list[bytes] = []
        self._used = 0

    def next(self) -> bytes:
        """A request without its frame length."""
        kind = self._random.random()
        if kind < 0.1:
            return hostile_request(self._random)
        if self._used % RENEWED_AFTER == 0:
            self._corpus = [self._request() for _ in range(CORPUS)]
        self._used += 1
        whole = self._random.choice(self._corpus)
        return whole if kind < 0.6 else whole[:8] + mutated(self._random, whole[8:])

    def well_formed(self) -> bytes:
        """A well-formed request about the present state, without its frame length."""
        return self._request()

    def _request(self) -> bytes:
        api_key, version = self._random.choice(ALL_VERSIONS)
        return request(api_key, version, self._random.randrange(2**31), "fuzz", self._values(api_key))[4:]

    def _values(self, api_key: ApiKey) -> dict[str, Any]:
        random = self._random
        group = random.choice(["shop", "shop", "another", "kafka-mesh", "", "ü"])
        member, generation = self._member(group)
        member_id = str(member.id) if member is not None and random.random() < 0.8 else random.choice(["", "unknown"])
        name = random.choice(["orders", "orders", "orders", "unknown", "a b"])
        positions = [
            (random.choice([*range(4), *range(4), *STRANGE]), self._offset(member)) for _ in range(random.randint(0, 5))
        ]
        named = {
            "group_id": group,
            "member_id": member_id,
            "group_instance_id": random.choice([None, None, None, "pod-1", ""]),
            "generation_id": generation,
            "generation_id_or_member_epoch": random.choice([generation, generation, -1]),
        }
        return self._data_values(api_key, name, positions, named) or self._group_values(api_key, name, named)

    def _member(self, group: str) -> tuple[Any, int]:
        """A member of the well-behaved group, and its generation."""
        pool = self._bench.server.core.pools.get(GroupId(group))
        members = list(pool.members.by_id.values()) if pool is not None else []
        if pool is None or not members:
            return None, 1
        member = self._random.choice(members)
        membership = pool.coordinator.members.get(member.id)
        return member, membership.generation if membership is not None else 1

    def _data_values(
        self, api_key: ApiKey, name: str, positions: list[tuple[int, int]], named: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Values for requests that name partitions."""
        random = self._random
        match api_key:
            case ApiKey.PRODUCE:
                data = tuple({"index": at, "records": b"x"} for at, _ in positions)
                topics = ({"name": name, "partition_data": data},)
                return {"acks": random.choice([1, 1, 1, -1, 0]), "timeout": 1, "topic_data": topics}
            case ApiKey.FETCH:
                most = random.choice([MAXIMUM, 0, -1])
                partitions = tuple(
                    {"partition": at, "fetch_offset": offset, "partition_max_bytes": most} for at, offset in positions
                )
                topic_id = self._bench.server.core.topics.topic_id(TopicName(name))
                return {
                    "max_wait": random.choice([0, 10, 500, -1, 2**31 - 1]),
                    "min_bytes": random.choice([0, 1, 1, 500, -1, 2**31 - 1]),
                    "max_bytes": random.choice([MAXIMUM, 100, 0, -1]),
                    "session_epoch": random.choice([-1, -1, 0, 1]),
                    "topics": ({"topic": name, "topic_id": topic_id, "partitions": partitions},),
                }
            case ApiKey.LIST_OFFSETS:
                asked = tuple(
                    {"partition_index": at, "timestamp": random.choice([-1, -2, -3, 5])} for at, _ in positions
                )
                return {"topics": ({"name": name, "partitions": asked},)}
            case ApiKey.OFFSET_COMMIT:
                committed = tuple({"partition_index": at, "committed_offset": offset} for at, offset in positions)
                return {**named, "topics": ({"name": name, "partitions": committed},)}
            case ApiKey.OFFSET_FETCH:
                wanted = ({"name": name, "partition_indexes": tuple(at for at, _ in positions)},)
                return {**named, "topics": wanted, "groups": ({**named, "topics": wanted},)}
            case ApiKey.SHARE_FETCH | ApiKey.SHARE_ACKNOWLEDGE:
                return self._share_values(name, positions, named)
            case ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS:
                about = ({"topic_name": name, "partitions": tuple(at for at, _ in positions)},)
                return {"groups": ({**named, "topics": random.choice([None, about])},)}
            case ApiKey.ALTER_SHARE_GROUP_OFFSETS:
                moved = tuple({"partition_index": at, "start_offset": offset} for at, offset in positions)
                return {**named, "topics": ({"topic_name": name, "partitions": moved},)}
            case ApiKey.DELETE_SHARE_GROUP_OFFSETS:
                return {**named, "topics": ({"topic_name": name},)}
            case ApiKey.DESCRIBE_CONFIGS | ApiKey.INCREMENTAL_ALTER_CONFIGS | ApiKey.LIST_CONFIG_RESOURCES:
                return self._config_values(str(named["group_id"]))
            case _:
                return None

    def _config_values(self, group: str) -> dict[str, Any]:
        random = self._random
        resource = {"resource_type": random.choice([32, 32, 32, 2, 4]), "resource_name": group}
        change = {
            "name": random.choice([*GROUP_CONFIGS, "unknown"]),
            "config_operation": random.choice([0, 0, 1, 2]),
            "value": random.choice(["7", "20000", "latest", "true", "", None]),
        }
        return {
            "resources": ({**resource, "configuration_keys": random.choice([None, ()]), "configs": (change,)},),
            "resource_types": random.choice([(), (32,), (2,)]),
            "validate_only": random.random() < 0.3,
        }

    def _share_values(self, name: str, positions: list[tuple[int, int]], named: dict[str, Any]) -> dict[str, Any]:
        random = self._random
        topic_id = self._bench.server.core.topics.topic_id(TopicName(name))
        partitions = tuple(
            {
                "partition_index": at,
                "acknowledgement_batches": tuple(
                    {
                        "first_offset": first,
                        "last_offset": min(first + random.choice([0, 2, 2, -1, 2**40]), 2**63 - 1),
                        "acknowledge_types": random.choice([(1,), (2,), (3,), (1, 2, 3), (0, 4, 1), (9,), ()]),
                    }
                    for first in random.choice([(), (), (random.randint(0, 60),), (0, 3), (offset,)])
                ),
            }
            for at, offset in positions
        )
        return {
            **named,
            "share_session_epoch": random.choice([0, 0, 1, 1, 2, 3, -1, -2, 2**31 - 1]),
            "max_wait": random.choice([0, 10, 500, -1, 2**31 - 1]),
            "min_bytes": random.choice([0, 1, 1, 500, -1]),
            "max_bytes": random.choice([MAXIMUM, 100, 0, -1]),
            "max_records": random.choice([500, 500, 3, 0, -1]),
            "batch_size": random.choice([500, 3, 0, -1]),
            "share_acquire_mode": random.choice([0, 1, 1, 7]),
            "is_renew_ack": random.random() < 0.1,
            "topics": ({"topic_id": topic_id, "partitions": partitions},),
            "forgotten_topics_data": random.choice([(), ({"topic_id": topic_id, "partitions": (0, -1)},)]),
        }

    def _group_values(self, api_key: ApiKey, name: str, named: dict[str, Any]) -> dict[str, Any]:
        """Values for all other requests in one: an API ignores those that it has no field for."""
        random = self._random
        match api_key:
            case ApiKey.LEAVE_GROUP:
                return {**named, "members": (named,) * random.randint(0, 2)}
            case ApiKey.METADATA:
                return {"topics": ({"name": name},)}
            case _:
                return {
                    **named,
                    "key": named["group_id"],
                    "coordinator_keys": (named["group_id"], name),
                    "key_type": random.choice([0, 0, 1]),
                    "session_timeout": random.choice([6_000, 10_000, 0, -1]),
                    "rebalance_timeout": random.choice([0, 10_000]),
                    "protocol_type": random.choice(["consumer", "consumer", "connect"]),
                    "protocols": ({"name": "range", "metadata": b"subscription"},),
                    "protocol_name": random.choice(["range", "sticky", ""]),
                    "assignments": ({"member_id": named["member_id"], "assignment": b"mine"},),
                    "groups": (named["group_id"], name),
                    "group_ids": (named["group_id"], name),
                    "groups_names": (name,),
                    "topics": (),
                    "states_filter": random.choice([(), ("Stable",)]),
                    "member_epoch": random.choice([0, 0, named["generation_id"], -1, -2, -3, 7]),
                    "instance_id": named["group_instance_id"],
                    "subscribed_topic_names": random.choice([None, (name,), ("orders",), ()]),
                    "topic_partitions": random.choice([None, (), ({"topic_id": None, "partitions": (0, -1)},)]),
                    "mechanism": random.choice(["PLAIN", "SCRAM-SHA-256", ""]),
                    "auth_bytes": b"\0user\0password",
                    "client_software_name": name,
                    "client_software_version": "1",
                }

    def _offset(self, member: Any) -> int:
        random = self._random
        slots = self._bench.server.core.slots
        if member is None or random.random() < 0.2:
            return random.choice([0, -1, 5, 2**53, 2**62, 2**63 - 1, int(slots.latest), 7 << 32 | 9])
        windows = list(member.windows.values())
        start = random.choice(windows).end if windows else int(slots.start(member.slot))
        return int(start) + random.choice([0, 0, 0, -1, -5, 1, 10])


# Without sockets


def run_handlers(seed: int, requests: int) -> str:
    random = Random(seed)
    with asyncio.Runner(loop_factory=FakeTimeLoop) as runner:
        return runner.run(_handlers(random, requests, seed))


async def _handlers(random: Random, requests: int, seed: int) -> str:
    asyncio.get_running_loop().set_exception_handler(_fail)
    bench = Bench(PoolSettings(fast_expiry=1.0, lock_timeout=20.0), GroupRules(maximum=20), limits=UNRATIONED)
    generator, peers, closed = Generator(random, bench), [bench.peer() for _ in range(20)], 0
    before, kept = resident_kib(), [] if requests < CHECKPOINT else [await _kept(bench, peers)]
    for number in range(requests):
        at = random.randrange(len(peers))
        sent = frame(generator.next())
        with _naming(f"request {number} of seed {seed}: {sent.hex()}"):
            peers[at].protocol.data_received(sent)
            if number % 20 == 0:
                _produce(random, bench)
                await asyncio.sleep(random.choice([0, 0, 0.01, 0.1, 1.0]))
            if bench.server.core.violations:
                raise AssertionError("a pool contradicted itself")
        peers[at].transport.written.clear()
        if peers[at].transport.closed or random.random() < 0.01:
            closed += peers[at].transport.closed
            peers[at].protocol.connection_lost(None)
            peers[at] = bench.peer()
        if (number + 1) % CHECKPOINT == 0:
            kept.append(await _kept(bench, peers))
            print(f"{number + 1} requests: {kept[-1] - kept[-2]:+} blocks, {resident_kib() - before} KiB", flush=True)
            # The first one makes everything that is made once: names of labels, caches, tables.
            if len(kept) > 2 and kept[-1] - kept[-2] > MAX_KEPT:
                raise AssertionError(f"{kept[-1] - kept[-2]} blocks are kept of clients that have gone")
    growth = resident_kib() - before
    answered = sum(bench.metric("kafka_mesh_requests_total").values())
    if growth > MAX_GROWTH_KIB:
        raise AssertionError(f"{growth} KiB grown")
    return f"{requests} requests, {answered:.0f} answered, {closed} connections closed, {growth} KiB grown"


async def _kept(bench: Bench, peers: list[Peer]) -> int:
    """All clients leave, and all pools end: returns the number of memory blocks in use then."""
    for number, peer in enumerate(peers):
        if not peer.transport.closed:
            peer.protocol.connection_lost(None)
        await asyncio.sleep(0)
        peers[number] = bench.peer()
    await asyncio.sleep(3_600)
    if bench.server.core.pools:
        raise AssertionError(f"pools without members: {[*bench.server.core.pools]}")
    bench.engines.clear()
    gc.collect()
    return sys.getallocatedblocks()


def _produce(random: Random, bench: Bench) -> None:
    bench.engines = [each for each in bench.engines if each.last is None]  # others were closed
    for engine in bench.engines[-6:]:
        engine.commands.clear()
        if not engine.assigned:
            engine.assign()
        if random.random() < 0.3:
            engine.produce_next(random.randrange(4), random.randint(1, 30))


@contextmanager
def _naming(what: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        print(what, file=sys.stderr)
        raise


def _fail(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    problem = context.get("exception")
    print(context["message"], repr(problem), file=sys.stderr)
    raise SystemExit(3)


def let_failures_through() -> None:
    """An error that would only end a connection ends the run."""

    def failed(*_: object) -> None:
        problem = sys.exception()
        assert problem is not None
        raise problem

    setattr(Requests, "_failed", failed)  # noqa: B010 - of another signature


# Over sockets


async def serve(limits: Limits, descriptors: int) -> None:
    """Serves until standard input ends. It first writes the port, and last the growth in KiB. A line of input ends the
    records; the answer is how many each partition of the well-behaved group has."""
    bench = Bench(PoolSettings(fast_expiry=1.0), GroupRules(maximum=20), limits=limits, descriptors=descriptors)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_fail)
    listener = await loop.create_server(bench.server.accept, "0.0.0.0", 0, backlog=1_024)
    before = resident_kib()
    print(listener.sockets[0].getsockname()[1], flush=True)
    line = loop.run_in_executor(None, sys.stdin.readline)
    random, is_fed = Random(1), True
    while True:
        if line.done():
            if not await line:
                break
            is_fed, line = False, loop.run_in_executor(None, sys.stdin.readline)
            ends = {f"{each.cluster}-{each.topic}-{each.partition}": end for each, end in _fed(bench).items()}
            print(json.dumps(ends), flush=True)
        if is_fed:
            _produce(random, bench)
            _feed(random, bench)
        await asyncio.sleep(0.01)
        if bench.server.core.violations:
            raise AssertionError("a pool contradicted itself")
    print(resident_kib() - before, flush=True)


def _feed(random: Random, bench: Bench) -> None:
    """Feeds the well-behaved group."""
    for engine in bench.engines:
        if engine.group == GROUP and engine.assigned:
            engine.produce_next(random.randrange(4), random.randint(1, 30))


def _fed(bench: Bench) -> Mapping[UpstreamPartition, int]:
    engines = [engine for engine in bench.engines if engine.group == GROUP]
    return {source: end for engine in engines for source, end in engine.ends.items()}


def child(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.listener.fuzz", "--child", *arguments]


def in_child(seed: int, requests: int) -> subprocess.CompletedProcess[str]:
    command = child("--seed", str(seed), "--requests", str(requests))
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.listener.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--sockets", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rationed", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--descriptors", type=int, default=1 << 20, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    # Every refused request is logged; here there are too many of them.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if arguments.sockets:
        from tests.listener.attack import attack

        began = time.monotonic()
        print(asyncio.run(attack(arguments.seed, arguments.requests)), f"in {time.monotonic() - began:.1f} s")
        return 0
    if not arguments.child:
        ended = in_child(arguments.seed, arguments.requests)
        print(ended.stdout, end="")
        print(ended.stderr, end="", file=sys.stderr)
        return int(ended.returncode != 0)
    let_failures_through()
    if arguments.serve:
        limits = CROWDED if arguments.rationed else UNRATIONED
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(limits, arguments.descriptors))
    else:
        print(run_handlers(arguments.seed, arguments.requests))
    return 0


if __name__ == "__main__":
    sys.exit(main())
