"""Hostile clients and hostile brokers, at the connections of a relay, without sockets.

    python -m tests.runtime.relay.fuzz --seed 7 --count 1000000

A stream is some requests of a client, or a broker's answers to them, with bits flipped, numbers replaced, parts cut out
or repeated, cut into chunks anywhere. It goes through a new connection: bare, on a listener with SASL, or with none. It
may at most close the connection: any exception ends the run, and so does any state that stays afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import math
import sys
import time
from collections import Counter
from random import Random
from struct import pack
from weakref import WeakSet

import structlog

from mesh.listener.security import ListenerSecurity, Sasl
from mesh.runtime.relay.connection import RelayConnection
from mesh.runtime.relay.nodes import RelayNode
from mesh.security.credentials import Credentials, StoredUser
from mesh.security.sasl import Mechanism
from mesh.upstream.links.leg import Leg
from mesh.wire.apis import ApiKey
from mesh.wire.relayed_apis import RELAYED_APIS
from tests.runtime.pool.harness import FakeTransport
from tests.runtime.relay.frames import answer, metadata, produce, request, text, versions
from tests.runtime.relay.harness import FakeCluster, World
from tests.runtime.relay.loops import until
from tests.wire.entities import frame
from tests.wire.fuzz import hostile_request, mutated

LOOKED_AT = (
    (ApiKey.METADATA, 4),
    (ApiKey.METADATA, 12),
    (ApiKey.FIND_COORDINATOR, 4),
    (ApiKey.DESCRIBE_CLUSTER, 1),
    (ApiKey.FETCH, 17),
    (ApiKey.SHARE_FETCH, 1),
    (ApiKey.PRODUCE, 11),
    (ApiKey.API_VERSIONS, 0),
    (ApiKey.API_VERSIONS, 4),
    (ApiKey.SASL_AUTHENTICATE, 2),
)
"""Answers of which the relay reads more than the head."""


class Wire(FakeTransport):
    """Either end of a relay's connections."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def can_write_eof(self) -> bool:
        return False

    def abort(self) -> None:
        self.close()


class Fuzz:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.ends: Counter[str] = Counter()
        self.connections: WeakSet[RelayConnection] = WeakSet()
        """Those of all streams that something still refers to."""
        sasl = Sasl((Mechanism.PLAIN,), Credentials([StoredUser("alice", password="sesam")], None), time.time)
        self.worlds = [
            World(FakeCluster(1)),
            World(FakeCluster(1), passes_authentication=True),
            World(FakeCluster(1), security=ListenerSecurity(sasl=sasl)),
        ]
        for world in self.worlds:
            world.ports = {0: 1_000}
            world.nodes._nodes_known.set()
            world.nodes._nodes[0] = RelayNode(0, "broker", 9092)
            world.nodes.open_leg = _no_socket  # type: ignore[method-assign]

    async def stream(self) -> None:
        """One client, and one broker, of which one is hostile."""
        random = self.random
        world = random.choice(self.worlds)
        connection = world.runtime.accept(0)
        self.connections.add(connection)
        client = Wire(connection, f"10.0.0.{random.randrange(200)}")  # type: ignore[arg-type]
        connection.connection_made(client)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asked = [self._asked(id) for id in range(random.randint(1, 4))]
        is_client_hostile = random.random() < 0.5
        sent = b"".join(each for _, _, each in asked)
        self._feed(connection, self._damaged(sent) if is_client_hostile else sent)
        leg = connection._leg
        if leg is not None and leg.is_open and not is_client_hostile:
            said = b"".join(self._answer(id, key) for id, (key, _, _) in enumerate(asked))
            self._feed(leg, self._damaged(said))
        self.ends["closed" if client.closed or not connection.client.is_open else "open"] += 1
        if connection.client.is_open:
            connection.connection_lost(None)
        await asyncio.sleep(0)

    def _feed(self, end: RelayConnection | Leg, data: bytes) -> None:
        """Feeds it in chunks, as long as the connection is open."""
        at = 0
        while at < len(data):
            if isinstance(end, Leg) and not end.is_open:
                return
            size = self.random.choice([1, 2, 7, 11, 100, 5_000, 1 << 18])
            chunk = data[at : at + size]
            end.get_buffer(-1)[: len(chunk)] = chunk
            end.buffer_updated(len(chunk))
            at += size

    def _damaged(self, data: bytes) -> bytes:
        kind = self.random.random()
        if kind < 0.1:
            return data
        if kind < 0.2:
            return self.random.randbytes(self.random.randrange(200))
        return mutated(self.random, data)

    def _asked(self, id: int) -> tuple[ApiKey, int, bytes]:
        random = self.random
        kind = random.random()
        if kind < 0.1:
            return ApiKey.HEARTBEAT, 3, frame(hostile_request(random))
        if kind < 0.2:
            return ApiKey.PRODUCE, 3, produce(id, random.choice([0, 1, -1]))
        if kind < 0.3:
            return ApiKey.SASL_HANDSHAKE, 1, request(ApiKey.SASL_HANDSHAKE, 1, id, text("PLAIN"))
        if kind < 0.8:
            key, version = random.choice(LOOKED_AT)
        else:
            key = random.choice(list(RELAYED_APIS))
            version = random.choice(RELAYED_APIS[key].all())
        return key, version, request(key, version, id, b"\0" * random.randrange(40))

    def _answer(self, id: int, key: ApiKey) -> bytes:
        random = self.random
        if key is ApiKey.API_VERSIONS:
            body = versions({3: (0, 12), 86: (0, 0), 1: (4, 99)})
        elif random.random() < 0.5:
            body = metadata({0: ("broker", 9092), 7: ("elsewhere", 70_000)})
        else:
            body = random.randbytes(random.randrange(60)) + pack(">i", random.choice([0, -1, 2**31 - 1]))
        return answer(id, body)

    async def end(self) -> None:
        """Asserts that nothing is left."""
        for world in self.worlds:
            assert not world.listener.connections
            assert all(node.legs == 0 for node in world.nodes.known.values())
            world.runtime.close_connections()
            await world.runtime.closed()
        await until(self._are_gone)  # a failed authentication names its connection until its answer is due

    def _are_gone(self) -> bool:
        gc.collect()
        return not self.connections


async def _no_socket(node: int | None, leg: Leg, *, passes_authentication: bool) -> tuple[RelayNode, float]:
    leg.connection_made(Wire(leg, "broker"))  # type: ignore[arg-type]
    return RelayNode(0, "broker", 9092), math.inf


async def run(seed: int, count: int) -> Counter[str]:
    """The ends of the connections of so many streams. Raises their exceptions."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    problems: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: problems.append(context.get("exception") or AssertionError(context["message"]))
    )
    fuzz = Fuzz(seed)
    for number in range(count):
        try:
            await fuzz.stream()
            if problems:
                raise problems[0]
        except Exception as problem:
            problem.add_note(f"stream {number} of seed {seed}")
            raise
    await fuzz.end()
    if problems:
        raise problems[0]
    return fuzz.ends


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1_000_000)
    arguments = parser.parse_args()
    print(dict(asyncio.run(run(arguments.seed, arguments.count))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
