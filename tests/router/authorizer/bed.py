"""A broker with ACLs, and a relay with the same rules in front of it, which the broker trusts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mesh.routing.kit.union_apis import SERVED_BY_UNIONS
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.integration.jars import kafka_jars
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import START, eventually, free_port
from tests.integration.relay_mesh import RelayMesh
from tests.router.authorizer.requests import Questions
from tests.router.authorizer.rules import MINE, OTHER, PUBLIC, RULES, SECRET, USERS, bindings
from tests.router.authorizer.sides import PASSWORD, Client, told

NOT_ASKED = {
    *(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS),  # the client's identity
    *(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY),  # served where a plugin takes the metrics
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,  # of Kafka 4.4
}
ASKED = sorted(set(SERVED_BY_UNIONS) - NOT_ASKED)


def broker_properties(sasl: int) -> dict[str, str]:
    """A second listener, for users that log in; the first one lets clients do everything."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in USERS)
    here = "PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:" + str(sasl)
    return {
        "listeners": here + ",CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": here,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{login} {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "broker.session.timeout.ms": "18000",  # so that a noisy machine does not move its coordinators
    }


@dataclass
class Sides:
    """The connections of each user to both. versions: those that both serve."""

    broker: KafkaCluster
    mesh: RelayMesh
    clients: Mapping[tuple[str, str], Client]
    questions: Questions
    versions: Mapping[ApiKey, range]


@contextmanager
def opened(folder: Path, *, is_one_node: bool = False) -> Iterator[Sides]:
    """is_one_node: clients see its only broker as one that stands for all."""
    with ExitStack() as stack:
        sasl = free_port()
        broker = KafkaCluster("rules", kafka_jars(), folder / "broker", broker_properties(sasl))
        stack.callback(broker.kill)
        for name in (MINE, SECRET, PUBLIC):
            broker.create_topic(name, 1)
        admin = broker.admin()  # must outlive its futures
        for future in admin.create_acls(list(bindings())).values():
            future.result(20)
        listener = {
            "sasl": {"mechanisms": ["PLAIN"], "users": [{"name": name, "password": PASSWORD} for name in USERS]},
            "authorization": {"rules": RULES},
        }
        shown = {"nodes": "one"} if is_one_node else {}
        mesh = RelayMesh(folder, broker.bootstrap_servers, listener={**listener, **shown})
        stack.callback(mesh.kill)
        door = mesh.bootstrap_servers if is_one_node else mesh.address_of(1)
        doors = {"broker": f"127.0.0.1:{sasl}", "mesh": door}
        clients = {(where, user): Client(door, user) for where, door in doors.items() for user in USERS}
        for client in clients.values():
            stack.callback(client.close)
        anybody = Client(broker.bootstrap_servers, None)
        stack.callback(anybody.close)
        _warm_up(anybody)
        _fill(anybody)
        topics = clients["mesh", "describer"].ask(ApiKey.METADATA, 12, {"topics": None})
        assert topics is not None
        ids = {each["name"]: each["topic_id"] for each in topics["topics"]}
        assert set(ids) >= {MINE, SECRET, PUBLIC}
        yield Sides(broker, mesh, clients, Questions(ids), _common_versions(clients))


def _warm_up(client: Client) -> None:
    """Makes the coordinators, and the topics in which they keep their state."""

    def are_there() -> bool:
        found = [
            client.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": kind, "coordinator_keys": [MINE]}) for kind in (0, 1)
        ]
        committed = client.ask(ApiKey.OFFSET_FETCH, 7, {"group_id": MINE, "topics": None})
        began = client.ask(ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": MINE, "transaction_timeout_ms": 10_000})
        codes = [answer["coordinators"][0]["error_code"] for answer in found if answer is not None]
        return codes == [0, 0] and [each["error_code"] for each in (committed, began) if each] == [0, 0]

    eventually("coordinators", are_there, timeout=START)


def _fill(client: Client) -> None:
    """Makes two groups and two open transactions, each with two topics."""
    for name in (MINE, OTHER):
        offset = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
        topics = [{"name": each, "partitions": [offset]} for each in (MINE, SECRET)]
        group = {"group_id": name, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        _succeeds(client, ApiKey.OFFSET_COMMIT, 8, group)
        began = {"transactional_id": name, "transaction_timeout_ms": 600_000}
        who = _succeeds(client, ApiKey.INIT_PRODUCER_ID, 4, began)
        added = {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": who["producer_id"],
            "v3_and_below_producer_epoch": who["producer_epoch"],
            "v3_and_below_topics": [{"name": each, "partitions": [0]} for each in (MINE, SECRET)],
        }
        _succeeds(client, ApiKey.ADD_PARTITIONS_TO_TXN, 3, added)


def _succeeds(client: Client, api_key: ApiKey, version: int, request: Tree) -> Tree:
    def answered() -> Tree | None:
        answer = client.ask(api_key, version, request)
        is_well = answer is not None and not any(code for _, key, code in told(answer) if key.endswith("error_code"))
        return answer if is_well else None

    answer = eventually(f"{api_key.name} succeeds", answered)
    assert answer is not None
    return answer


def _common_versions(clients: Mapping[tuple[str, str], Client]) -> Mapping[ApiKey, range]:
    ranges: dict[ApiKey, range] = {}
    answers = [clients[where, "owner"].ask(ApiKey.API_VERSIONS, 0, {}) for where in ("broker", "mesh")]
    served = [
        {each["api_key"]: (each["min_version"], each["max_version"]) for each in answer["api_keys"]}
        for answer in answers
        if answer is not None
    ]
    for api_key in ASKED:
        both = [each[api_key] for each in served if api_key in each]
        if len(both) == 2:
            lowest = max(max(lowest for lowest, _ in both), SERVED_BY_UNIONS[api_key].lowest)
            ranges[api_key] = range(lowest, min(highest for _, highest in both) + 1)
    return ranges
