"""Those who ask the same questions: each with names of its own, and a memory of what was answered."""

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
"""The node to which all goes that need not go to another one. It leads what the sides have, coordinates everything, and
is not the controller."""
OTHER = 1_000_000

PARTITIONS = 19
"""Of a side's topic: one for each version of an API."""

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
    """A question, and what was answered: without the frame length, None where the connection was closed."""

    api: str
    version: int
    given: Mapping[str, Any]
    answer: bytes | None
    was_reset: bool


@dataclass(frozen=True, slots=True)
class Shared:
    """What all sides ask about: on the cluster before any of them, and never changed.

    topic: of three partitions with three replicas, led by 101, 1 and 1000000. In the first of them are records of all
    codecs, and three transactions: one was aborted, one committed, and one is open.
    """

    topic: str
    topic_id: UUID
    cluster_id: str
    versions: Mapping[int, tuple[int, int]]
    """That the cluster advertises."""
    controller: int = ASKED
    """The node to ask for what only the controller does: any, where it is passed on to that one."""

    def asked(self, api: str, at: int) -> int:
        """The node that answers a question that is meant for this one."""
        return self.controller if at == ASKED and api in _OF_THE_CONTROLLER else at

    def known(self, api: str, version: int) -> int:
        """This version, or the highest that there is."""
        return min(version, self.versions[KEYS[api]][1])


@dataclass
class Side:
    """doors: where it connects to for each node. direct: the nodes themselves, for what only prepares a question."""

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
        """Its own one; empty at first."""
        return self.name("own")

    @property
    def correlation_id(self) -> int:
        """Of the next question: the same on all sides that ask the same."""
        return 2**31 - 3 - len(self.exchanges)

    def open(self, cluster: SeveralBrokers) -> None:
        """Make its topics. The changelog is there before a streams group asks for it: else the answers say how far the
        coordinator is with making it."""
        for name in (self.name("changelog"), self.topic):
            cluster.create_topic(name, PARTITIONS, places=[[ASKED]] * PARTITIONS)
            answer = self.until("metadata", 12, lambda answer: answer.topics[0].topic_id, topics=[{"name": name}])
            self.topic_id = answer.topics[0].topic_id  # known there, too

    def ask(self, api: str, version: int, at: int = ASKED, /, **given: Any) -> Any:
        """A question that is compared; the answer as kio reads it, None if there is none."""
        return self.ask_bytes(api, version, request(KEYS[api], version, given, self.correlation_id), at, given)

    def ask_bytes(
        self, api: str, version: int, asked: bytes, at: int = ASKED, given: Mapping[str, Any] | None = None
    ) -> Any:
        """The same, for one that is written already."""
        connection = self._connection(self.shared.asked(api, at), is_direct=False)
        answer = connection.ask(asked)
        self._note(api, version, given or {"bytes": asked}, answer, connection)
        return read(api, version, answer)

    def tell(self, frames: bytes, api: str, version: int, at: int = ASKED) -> list[bytes]:
        """Several requests at once on a connection of their own, until it is closed: what was answered, which is
        compared together with how it was closed."""
        connection = RawConnection(self.doors[at])
        connection.tell(frames)
        answers = []
        while (answer := connection.answer()) is not None:
            answers.append(answer)
            self._note(api, version, {"bytes": frames}, answer, connection)
        self._note(api, version, {"bytes": frames}, None, connection)
        return answers

    def tell_and_ask(self, unanswered: bytes, api: str, version: int, at: int = ASKED, /, **given: Any) -> Any:
        """A question behind a request that has no answer."""
        self._connection(at, is_direct=False).tell(frame(unanswered))
        return self.ask(api, version, at, **given)

    def prepare(self, api: str, version: int, at: int = ASKED, /, **given: Any) -> Any:
        """What only makes the question possible: asked directly, not compared; in the highest version that there is, if
        there is not this one."""
        version, at = self.shared.known(api, version), self.shared.asked(api, at)
        answer = self._connection(at, is_direct=True).ask(request(KEYS[api], version, given))
        assert answer is not None, f"{api} v{version} closes the connection: {given}"
        return read(api, version, answer)

    def prepare_until(self, api: str, version: int, /, **given: Any) -> Any:
        """The same, until the answer has no error on its top level."""
        return self.until(api, version, lambda answer: not answer.error_code.value, **given)

    def until(self, api: str, version: int, is_well: Callable[[Any], Any], /, **given: Any) -> Any:
        """The first answer of that kind, asked directly."""

        def answered() -> Any:
            answer = self.prepare(api, version, **given)
            return answer if is_well(answer) else None

        return eventually(f"{api} goes well for {self.token}", answered)

    def canonical(self, answer: bytes) -> bytes:
        """With what any side's names are in place of its own: all of the same length."""
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
    """As Kafka writes it in texts."""
    return base64.urlsafe_b64encode(identity.bytes).decode().rstrip("=")
