"""A virtual cluster whose clients send bytes: the world of `tests.pool.harness` behind every handler, without IO."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Final

from mesh.apis.answers import ConnectionId
from mesh.apis.api import Authentication, ListenerContext, RequestContext, RequestFields
from mesh.apis.dispatch import Work, begin
from mesh.apis.listener_table import LISTENER_TABLE
from mesh.pool.apis.context import Endpoint, HostAndPort, PoolContext
from mesh.pool.apis.table import TABLE
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.ids import MemberId
from mesh.pool.common.settings import PoolSettings
from mesh.records.decode import decode_records
from mesh.security.principals import ANONYMOUS
from mesh.security.rules import UNLIMITED, Access, Refusal
from mesh.security.sasl import Slow
from mesh.security.session import AuthenticationResult as AuthenticationStep
from mesh.security.session import Handshake, Session
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.connection import FramedRequest, ServerConnection
from mesh.wire.errors import ErrorCode
from mesh.wire.features import NO_FEATURES
from tests.pool.apis.messages import Conversation
from tests.pool.harness import GROUP, MAXIMUM, ORDERS, World
from tests.pool.names import HOST
from tests.records.reading import split_batches

ENDPOINT: Final = Endpoint("mesh-1", HostAndPort("broker.example", 9092), HostAndPort("coordinator.example", 9093))
APIS_SERVED: Final = dict(sorted({**LISTENER_TABLE, **TABLE}.items()))
SERVED: Final = {key: api.versions for key, api in APIS_SERVED.items()}


def versions(api_key: ApiKey) -> list[int]:
    """All versions of an API, for parametrize."""
    return list(APIS[api_key].all())


class Mesh(World):
    def __init__(
        self,
        settings: PoolSettings | None = None,
        rules: GroupRules | None = None,
        endpoint: Endpoint = ENDPOINT,
        **options: bool,
    ) -> None:
        super().__init__(settings, rules, **options)
        self._endpoint = endpoint
        self.in_work: dict[FramedRequest, tuple[Client, Work]] = {}
        self.ids = itertools.count(100)

    def handle(self, client: Client, asked: FramedRequest) -> None:
        fields: RequestFields = (
            SERVED,
            client.connection,
            asked.client_id or "",
            HOST,
            asked.api_version,
            asked,
            self.now,
            0.0,
            client.session,
            client.access,
        )
        context: RequestContext
        if asked.api_key in LISTENER_TABLE:
            context = ListenerContext(*fields, NO_FEATURES, asked.is_version_unknown)
        else:
            context = PoolContext(*fields, self.cluster, self._endpoint)
        work, effects = begin(APIS_SERVED[asked.api_key], context, asked.decode())
        self.in_work[asked] = (client, work)
        self.do([each for each in effects if not isinstance(each, Authentication)])
        for each in effects:
            if isinstance(each, Authentication):
                self._answered(each.ticket, settled(client, each.step))

    def _answered(self, ticket: object, result: object) -> None:
        if not isinstance(ticket, FramedRequest):
            super()._answered(ticket, result)
            return
        client, work = self.in_work.pop(ticket)
        response = work.respond(result)
        client.refusals += [*work.refusals, *work.later_refusals]
        if response is None:
            client.wire.no_response(ticket)
        else:
            client.wire.answer(ticket, response)


class Client(Conversation):
    """One connection of a client, and the client's view of its group."""

    def __init__(
        self,
        mesh: Mesh,
        client_id: str = "c",
        access: Access = UNLIMITED,
        session: Session | None = None,
        node: int = ENDPOINT.nodes.coordinator,
    ) -> None:
        """node: the node to which it has connected."""
        super().__init__(client_id)
        self.access = access
        self.session = session or Session()
        self.refusals: list[Refusal] = []
        self.mesh = mesh
        self.connection = ConnectionId(next(mesh.ids))
        self.wire = ServerConnection({key: (served.lowest, served.highest) for key, served in SERVED.items()})
        self.member_id = ""
        self.generation = -1
        self._received: dict[int, Any] = {}
        mesh.cluster.connected(self.connection, HOST, node)
        mesh.cluster.authenticated(self.connection, self.session.principal or ANONYMOUS)

    # Bytes

    def receive(self, data: bytes) -> bytes:
        """Passes bytes to the mesh; returns its immediate answers."""
        for asked in self.wire.receive_data(data):
            self.mesh.handle(self, asked)
        return self.sent()

    def sent(self) -> bytes:
        return b"".join(self.wire.data_to_send())

    # Requests

    def send(self, api_key: ApiKey, version: int, /, **values: Any) -> int:
        """Returns the correlation id."""
        self._take(self.receive(self.bytes_of(api_key, version, **values)))
        return self.last

    def answer(self, correlation: int) -> Any:
        """The answer as kio reads it; None if there is none yet."""
        self._take(self.sent())
        return self._received.pop(correlation, None)

    def ask(self, api_key: ApiKey, version: int, /, **values: Any) -> Any:
        """The answer to a request that is answered at once."""
        answer = self.answer(self.send(api_key, version, **values))
        assert answer is not None, f"{api_key.name} v{version} is not answered"
        return answer

    def take(self, data: bytes) -> list[Any]:
        """The answers in these bytes, as kio reads them."""
        return [answer for _, answer in self.answers(data)]

    def _take(self, data: bytes) -> None:
        for correlation, answer in self.answers(data):
            assert correlation not in self._received
            self._received[correlation] = answer

    # What consumers do

    def join(self, version: int = 9, **values: Any) -> Any:
        """Becomes a member, with as many JoinGroups as it takes; returns the last answer."""
        values = {**join_values(), **values}
        answer = self._join(version, values)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self._join(version, values)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def _join(self, version: int, values: dict[str, Any]) -> Any:
        correlation = self.send(ApiKey.JOIN_GROUP, version, **{"member_id": self.member_id, **values})
        self.mesh.advance(0.2)
        return self.answer(correlation)

    def positions(self, version: int = 9, partitions: Iterable[int] = range(4)) -> dict[int, int]:
        """The positions in OffsetFetch's answer, by partition."""
        answer = self.ask(ApiKey.OFFSET_FETCH, version, **self.offset_fetch_values(partitions))
        topics = answer.groups[0].topics if version >= 8 else answer.topics
        return {partition.partition_index: partition.committed_offset for partition in topics[0].partitions}

    def offset_fetch_values(self, partitions: Iterable[int] = range(4)) -> dict[str, Any]:
        group = {"group_id": GROUP, "topics": ({"name": ORDERS, "partition_indexes": tuple(partitions)},)}
        return {**group, "groups": ({**group, "member_id": self.member_id or None, "member_epoch": self.generation},)}

    def commit_values(self, positions: dict[int, int], **changes: Any) -> dict[str, Any]:
        partitions = tuple(
            {"partition_index": partition, "committed_offset": offset} for partition, offset in positions.items()
        )
        return {
            "group_id": GROUP,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "topics": ({"name": ORDERS, "partitions": partitions},),
            **changes,
        }


def joined(mesh: Mesh, client_id: str = "c", **values: Any) -> Client:
    client = Client(mesh, client_id)
    assert client.join(**values).error_code == 0
    mesh.assign_all()
    return client


def join_values(**changes: Any) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "session_timeout": 45_000,
        "rebalance_timeout": 60_000,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": (
            {"name": "range", "metadata": b"subscription"},
            {"name": "roundrobin", "metadata": b"other subscription"},
        ),
        **changes,
    }


def fetch_values(mesh: Mesh, positions: dict[int, int], topic: str = ORDERS, **changes: Any) -> dict[str, Any]:
    """Partitions of one topic, and the client's position in each of them."""
    partitions = tuple(
        {"partition": partition, "fetch_offset": offset, "partition_max_bytes": MAXIMUM}
        for partition, offset in positions.items()
    )
    topics = ({"topic": topic, "topic_id": mesh.cluster.topics.topic_id(ORDERS), "partitions": partitions},)
    return {"max_wait": 500, "min_bytes": 1, "max_bytes": 50 * MAXIMUM, "topics": topics, **changes}


def values_of(records: bytes) -> list[tuple[int, bytes | None]]:
    """Virtual offset and value of each record."""
    return [(record.offset, record.value) for batch in split_batches(records) for record in decode_records(batch)]


def member_of(mesh: Mesh, client: Client) -> Any:
    return mesh.pool.members.by_id[MemberId(client.member_id)]


def settled(client: Client, step: AuthenticationStep | Handshake) -> AuthenticationStep | Handshake:
    """A step, with the work of the mesh's threads done at once."""
    return client.session.settle(step.check(), 0.0, 0.0) if isinstance(step, Slow) else step
