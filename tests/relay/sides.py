"""The sides of a comparison: each with its own names, and a memory of its answers."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final
from uuid import UUID

from tests.integration.processes import eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.relay.cluster import SeveralBrokers
from tests.relay.requests import KEYS, read, request
from tests.wire.entities import frame

ASKED = 101
"""The node for all requests that need no particular one. It leads the sides' topics, coordinates everything, and is not
the controller."""
OTHER = 1_000_000

PARTITIONS = 19
"""Partitions of a side's topic: one for each version of an API."""

_OF_THE_CONTROLLER: Final = frozenset(
    {
        "create_topics",
        "delete_topics",
        "create_partitions",
        "elect_leaders",
        "alter_partition_reassignments",
        "list_partition_reassignments",
        "alter_user_scram_credentials",
        "update_features",
    }
)
_TOKEN: Final = "side-%03d"
_CANON = b"side-000"
_CANON_ID = UUID(int=0xABCDEF).bytes
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, without the frame length; None if the connection was closed."""

    api: str
    version: int
    given: Mapping[str, Any]
    answer: bytes | None
    was_reset: bool


@dataclass(frozen=True, slots=True)
class Shared:
    """The subject of all sides' requests: it exists before any of them, and never changes.

    topic: three partitions with three replicas, led by 101, 1 and 1000000. The first partition has records of all
    codecs, and three transactions: one aborted, one committed, and one open.
    """

    topic: str
    topic_id: UUID
    cluster_id: str
    versions: Mapping[int, tuple[int, int]]
    """The versions that the cluster advertises."""
    controller: int = ASKED
    """The node for the controller's requests: any, where they are passed on to it."""

    def asked(self, api: str, at: int) -> int:
        """The node that answers a request for this one."""
        return self.controller if at == ASKED and api in _OF_THE_CONTROLLER else at

    def known(self, api: str, version: int) -> int:
        """This version, or the highest one that the cluster has."""
        return min(version, self.versions[KEYS[api]][1])


@dataclass
class Side:
    """doors: the address to connect to for each node. direct: the nodes themselves, for requests that only prepare
    others."""

    doors: Mapping[int, Endpoint]
    direct: Mapping[int, Endpoint]
    shared: Shared
    token: str = field(default_factory=lambda: _TOKEN % next(_numbers))
    exchanges: list[Exchange] = field(default_factory=list)
    topic_id: UUID | None = None
    _connections: dict[tuple[bool, int], RawConnection] = field(default_factory=dict)

    def name(self, kind: str) -> str:
        """A name that no other side has."""
        return f"{kind}-{self.token}"

    @property
    def topic(self) -> str:
        """The side's own topic; empty at first."""
        return self.name("own")

    @property
    def correlation_id(self) -> int:
        """The id of the next request: the same on all sides."""
        return 2**31 - 3 - len(self.exchanges)

    def open(self, cluster: SeveralBrokers) -> None:
        """Makes its topics. The changelog exists before a streams group asks for it: else answers would depend on how
        far the coordinator is with making it."""
        for name in (self.name("changelog"), self.topic):
            cluster.create_topic(name, PARTITIONS, places=[[ASKED]] * PARTITIONS)
            answer = self.until("metadata", 12, lambda answer: answer.topics[0].topic_id, topics=[{"name": name}])
            self.topic_id = answer.topics[0].topic_id  # known there, too

    def ask(self, api: str, version: int, at: int = ASKED, /, **given: Any) -> Any:
        """Sends a request that is compared; returns the answer as kio reads it, None if there is none."""
        return self.ask_bytes(api, version, request(KEYS[api], version, given, self.correlation_id), at, given)

    def ask_bytes(
        self, api: str, version: int, asked: bytes, at: int = ASKED, given: Mapping[str, Any] | None = None
    ) -> Any:
        """The same for a request in bytes."""
        connection = self._connection(self.shared.asked(api, at), is_direct=False)
        answer = connection.ask(asked)
        self._note(api, version, given or {"bytes": asked}, answer, connection)
        return read(api, version, answer)

    def tell(self, frames: bytes, api: str, version: int, at: int = ASKED) -> list[bytes]:
        """Sends several requests at once on a new connection, until it is closed. Returns the answers, which are
        compared together with the way in which it was closed."""
        connection = RawConnection(self.doors[at])
        connection.tell(frames)
        answers = []
        while (answer := connection.answer()) is not None:
            answers.append(answer)
            self._note(api, version, {"bytes": frames}, answer, connection)
        self._note(api, version, {"bytes": frames}, None, connection)
        return answers

    def tell_and_ask(self, unanswered: bytes, api: str, version: int, at: int = ASKED, /, **given: Any) -> Any:
        """Sends a request behind one that has no answer."""
        self._connection(at, is_direct=False).tell(frame(unanswered))
        return self.ask(api, version, at, **given)

    def prepare(self, api: str, version: int, at: int = ASKED, /, **given: Any) -> Any:
        """Sends a request that only prepares others: directly, and without a comparison; in the highest version that
        exists if this one does not."""
        version, at = self.shared.known(api, version), self.shared.asked(api, at)
        answer = self._connection(at, is_direct=True).ask(request(KEYS[api], version, given))
        assert answer is not None, f"{api} v{version} closes the connection: {given}"
        return read(api, version, answer)

    def prepare_until(self, api: str, version: int, /, **given: Any) -> Any:
        """The same, repeated until the answer has no error on its top level."""
        return self.until(api, version, lambda answer: not answer.error_code.value, **given)

    def until(self, api: str, version: int, is_well: Callable[[Any], Any], /, **given: Any) -> Any:
        """The first answer of that kind, requested directly."""

        def answered() -> Any:
            answer = self.prepare(api, version, **given)
            return answer if is_well(answer) else None

        return eventually(f"{api} goes well for {self.token}", answered)

    def canonical(self, answer: bytes) -> bytes:
        """The answer with neutral names of the same length in place of the side's own."""
        assert self.topic_id is not None
        return answer.replace(self.token.encode(), _CANON).replace(self.topic_id.bytes, _CANON_ID)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _note(
        self, api: str, version: int, given: Mapping[str, Any], answer: bytes | None, connection: RawConnection
    ) -> None:
        was_reset = answer is None and connection.was_reset
        self.exchanges.append(Exchange(api, version, given, answer, was_reset))

    def _connection(self, node: int, is_direct: bool) -> RawConnection:
        key = is_direct, node
        if key not in self._connections:
            self._connections[key] = RawConnection((self.direct if is_direct else self.doors)[node])
        return self._connections[key]


def spelt(identity: UUID) -> str:
    """The id as Kafka writes it in texts."""
    return base64.urlsafe_b64encode(identity.bytes).decode().rstrip("=")
