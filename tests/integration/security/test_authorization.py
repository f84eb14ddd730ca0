"""The answers to clients without permission, API by API: of the mesh, and of a real broker with the same rules."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from mesh.wire.apis import ApiKey
from tests.integration.jars import kafka_jars
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import START, eventually, free_port
from tests.pool.apis.messages import Conversation

# One broker and one mesh for all of them.
pytestmark = pytest.mark.xdist_group("authorization")
MINE, SECRET, MISSING, OTHER = "mine", "secret", "missing", "other"
PASSWORD: Final = "sesam"
PARTITION: Final = {"partition_index": 0, "partition": 0, "timestamp": -2, "current_leader_epoch": -1}


def broker_properties(sasl: int) -> dict[str, str]:
    """A second listener for clients that log in; the first one allows everything."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    here = "PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:" + str(sasl)
    return {
        "listeners": here + ",CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": here,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{login} user_alice="{PASSWORD}" user_bob="{PASSWORD}";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


RULES: Final[list[dict[str, Any]]] = [
    {"principals": ["User:alice"], "topics": [MINE], "groups": [MINE]},
    {"principals": ["User:alice", "User:bob"], "topics": ["public."], "pattern_type": "prefixed"},
    {"principals": ["User:bob"], "topics": ["*"], "operations": ["describe"]},
    {"principals": ["User:bob"], "topics": [SECRET], "operations": ["describe"], "permission": "deny"},
]


def bindings() -> Iterator[AclBinding]:
    """The same rules in a broker's form."""
    for rule in RULES:
        denies = rule.get("permission") == "deny"
        permission = AclPermissionType.DENY if denies else AclPermissionType.ALLOW
        pattern = ResourcePatternType.PREFIXED if "pattern_type" in rule else ResourcePatternType.LITERAL
        for kind, key in ((ResourceType.TOPIC, "topics"), (ResourceType.GROUP, "groups")):
            for name in rule.get(key, ()):
                for principal in rule["principals"]:
                    for operation in rule.get("operations", ["read"]):
                        wanted = AclOperation[operation.upper()]
                        yield AclBinding(kind, name, pattern, principal, "*", wanted, permission)


class Client(Conversation):
    """One connection of a client that has logged in."""

    def __init__(self, address: str, name: str) -> None:
        super().__init__(name)
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        assert self.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
        assert self.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"\0{name}\0{PASSWORD}".encode()).error_code == 0

    def ask(self, api_key: ApiKey, version: int, /, **values: Any) -> Any:
        self.socket.sendall(self.bytes_of(api_key, version, **values))
        size = int.from_bytes(self._read(4), "big")
        ((_, answer),) = self.answers(size.to_bytes(4, "big") + self._read(size))
        return answer

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            assert more, "the connection was closed"
            data += more
        return data


def topics(*names: str, key: str = "partitions", **partition: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple({"name": name, "topic": name, key: ({**PARTITION, **partition},)} for name in names)


def group(group_id: str) -> dict[str, Any]:
    return {"group_id": group_id, "member_id": "", "generation_id": 1, "group_instance_id": None}


def offsets(group_id: str, *names: str) -> dict[str, Any]:
    asked = tuple({"name": name, "partition_indexes": (0,)} for name in names)
    one = {"group_id": group_id, "topics": asked, "member_id": None, "member_epoch": -1}
    return {"groups": (one,), "require_stable": False}


def commit(group_id: str, *names: str) -> dict[str, Any]:
    return {
        **group(group_id),
        "generation_id_or_member_epoch": -1,
        "topics": topics(*names, committed_offset=0),
    }


def fetch(*names: str) -> dict[str, Any]:
    found = topics(*names, fetch_offset=0, partition_max_bytes=1 << 20)
    return {"max_wait": 100, "min_bytes": 0, "max_bytes": 1 << 20, "topics": found, "session_epoch": -1}


HEARTBEAT: Final = {
    "member_id": "m",
    "member_epoch": 0,
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout": 10_000,
    "subscribed_topic_names": (MINE,),
    "server_assignor": None,
    "topic_partitions": (),
}
JOIN: Final = {
    **group(OTHER),
    "session_timeout": 10_000,
    "rebalance_timeout": 10_000,
    "protocol_type": "consumer",
    "protocols": ({"name": "range", "metadata": b""},),
}
PRODUCE: Final = {
    "acks": 1,
    "timeout": 1_000,
    "transactional_id": None,
    "topic_data": ({"name": MINE, "partition_data": ({"index": 0, "records": b""},)},),
}
REQUESTS: Final[list[tuple[str, ApiKey, int, dict[str, Any]]]] = [
    ("named", ApiKey.METADATA, 9, {"topics": topics(MINE, SECRET, MISSING, "public.x")}),
    ("named", ApiKey.METADATA, 1, {"topics": topics(MINE, SECRET, MISSING)}),
    ("all", ApiKey.METADATA, 9, {"topics": None}),
    ("", ApiKey.LIST_OFFSETS, 6, {"topics": topics(MINE, SECRET, MISSING)}),
    ("", ApiKey.FETCH, 11, fetch(SECRET)),
    ("", ApiKey.FETCH, 12, fetch(SECRET, MISSING)),
    ("", ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": (OTHER,)}),
    ("", ApiKey.FIND_COORDINATOR, 2, {"key_type": 0, "key": OTHER}),
    ("", ApiKey.JOIN_GROUP, 5, JOIN),
    ("", ApiKey.SYNC_GROUP, 3, {**group(OTHER), "assignments": ()}),
    ("", ApiKey.HEARTBEAT, 3, group(OTHER)),
    ("", ApiKey.LEAVE_GROUP, 2, group(OTHER)),
    ("", ApiKey.LEAVE_GROUP, 4, {**group(OTHER), "members": ({"member_id": "m", "group_instance_id": None},)}),
    ("group", ApiKey.OFFSET_COMMIT, 8, commit(OTHER, MINE, SECRET)),
    ("topic", ApiKey.OFFSET_COMMIT, 8, commit(MINE, SECRET)),
    ("group", ApiKey.OFFSET_FETCH, 8, offsets(OTHER, MINE)),
    ("topic", ApiKey.OFFSET_FETCH, 8, offsets(MINE, SECRET)),
    ("", ApiKey.PRODUCE, 9, PRODUCE),
    ("", ApiKey.LIST_GROUPS, 4, {"states_filter": ()}),
    ("", ApiKey.DESCRIBE_GROUPS, 5, {"groups": (OTHER,), "include_authorized_operations": False}),
    ("", ApiKey.DELETE_GROUPS, 2, {"groups_names": (OTHER, MINE)}),
    ("group", ApiKey.OFFSET_DELETE, 0, {"group_id": OTHER, "topics": topics(MINE)}),
    ("", ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, {**HEARTBEAT, "group_id": OTHER}),
    ("", ApiKey.CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": (OTHER,), "include_authorized_operations": False}),
]


def _coordinates(broker: KafkaCluster) -> bool:
    """True if it coordinates its groups, which it loads for a while after its first answer."""
    try:
        return broker.committed(MINE) == {}
    except KafkaException:
        return False


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The addresses of the broker and of a mesh in front of it, where alice and bob log in."""
    with ExitStack() as stack:
        sasl = free_port()
        broker = KafkaCluster("rules", kafka_jars(), tmp_path_factory.mktemp("broker"), broker_properties(sasl))
        stack.callback(broker.kill)
        for name in (MINE, SECRET, "public.x"):
            broker.create_topic(name, 1)
        admin = broker.admin()  # must outlive its futures
        for future in admin.create_acls(list(bindings())).values():
            future.result(20)
        eventually("the broker coordinates groups", lambda: _coordinates(broker), timeout=START)
        listener = {
            "sasl": {
                "mechanisms": ["PLAIN"],
                "users": [{"name": name, "password": PASSWORD} for name in ("alice", "bob")],
            },
            "authorization": {"rules": RULES},
        }
        mesh = Mesh([broker], [MINE, SECRET, "public.x"], tmp_path_factory.mktemp("mesh"), {}, listener=listener)
        stack.callback(mesh.kill)
        yield {"broker": f"127.0.0.1:{sasl}", "mesh": mesh.bootstrap_servers}


@pytest.mark.long
@pytest.mark.parametrize("name", ["alice", "bob"])
@pytest.mark.parametrize(
    ("api_key", "version", "values"),
    [
        pytest.param(key, version, values, id=f"{key.name}-v{version}-{about}")
        for about, key, version, values in REQUESTS
    ],
)
def test_errors_are_a_brokers(
    addresses: dict[str, str], name: str, api_key: ApiKey, version: int, values: dict[str, Any]
) -> None:
    told = {
        where: errors(Client(address, name).ask(api_key, version, **values)) for where, address in addresses.items()
    }
    assert told["mesh"] == told["broker"]


def errors(answer: Any, about: str = "") -> set[tuple[str, int]]:
    """The error codes of an answer, each with its subject; listed topics have 0."""
    found: set[tuple[str, int]] = set()
    if not is_dataclass(answer):
        return found
    named = [getattr(answer, key, None) for key in ("name", "topic", "key", "group_id")]
    about = next((name for name in named if isinstance(name, str)), about)
    for field in fields(answer):
        value = getattr(answer, field.name)
        if field.name == "error_code" and about != "__consumer_offsets":  # the mesh has none
            found.add((about, int(value.value)))
        for each in value if isinstance(value, tuple) else ():
            found |= errors(each, about)
    return found
