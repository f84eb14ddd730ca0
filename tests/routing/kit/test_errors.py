"""The answer to a failed request names all entities of the request, as Kafka's own classes do."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mesh.routing.kit.errors import error_answer
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.trees import Tree, read_tree, write_tree
from tests.integration.jars import NEWEST_CLIENTS, kafka_jars, missing_programs
from tests.wire.each_version import each_version
from tests.wire.entities import encode, entities
from tests.wire.entities.messages import sample_body, schema_of

PROGRAM = Path(__file__).with_name("ErrorAnswers.java")
REQUESTS = [(api_key, version) for api_key, versions in RELAYED_APIS.items() for version in versions.all()]
ENDS = [(api_key, version) for api_key, each in RELAYED_APIS.items() for version in sorted({each.lowest, each.highest})]
CODE, MESSAGE = 29, "not yours"

ENTITIES = {
    EntityKind.TOPIC,
    EntityKind.TOPIC_ID,
    EntityKind.GROUP,
    EntityKind.TRANSACTIONAL_ID,
    EntityKind.RESOURCE_NAME,
    EntityKind.KEY,
}
ONE_ERROR = {
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
}
"""APIs whose requests name entities, and whose answers have one error for all."""
NOT_ASKED_ABOUT = {"group_id", "transactional_id", "forgotten_topics_data", "cursor", "member_id"}
"""Fields at the top of a request that name its sender."""


def ids(each: tuple[ApiKey, int]) -> str:
    return f"{each[0].name}-{each[1]}"


def named_in(fields: Sequence[Field], tree: Tree) -> Iterator[tuple[EntityKind, Any]]:
    """The names in a message, each with its kind."""
    for field in fields:
        value = tree[field.kafka_name]
        for each in value if isinstance(value, list) else [value]:
            if field.fields and each is not None:
                yield from named_in(field.fields, each)
            elif field.kind is EntityKind.COORDINATOR_KEY:
                yield EntityKind.KEY, each
            elif field.kind in ENTITIES and each is not None:
                yield field.kind, each


def codes_in(value: Any) -> Iterator[int]:
    match value:
        case dict():
            for name, each in value.items():
                if name.endswith("error_code") and name not in ("topic_config_error_code", "acknowledge_error_code"):
                    yield each
                else:
                    yield from codes_in(each)
        case list():
            for each in value:
                yield from codes_in(each)


def answered(api_key: ApiKey, version: int, request: Tree) -> Tree:
    answer = error_answer(api_key, version, request, CODE, MESSAGE)
    return read_tree(api_key, version, Direction.RESPONSE, write_tree(api_key, version, Direction.RESPONSE, answer))


def check(api_key: ApiKey, version: int, request: Tree) -> None:
    answer = answered(api_key, version, request)
    assert set(codes_in(answer)) <= {CODE}
    if api_key in ONE_ERROR or (api_key is ApiKey.FIND_COORDINATOR and version < 4):
        assert CODE in codes_in(answer)
        return
    fields = [each for each in layout(api_key, version, Direction.REQUEST) if each.name not in NOT_ASKED_ABOUT]
    fields = [each for each in fields if not each.name.startswith("v3_and_below_transactional")]
    said = set(named_in(layout(api_key, version, Direction.RESPONSE), answer))
    asked = set(named_in(fields, request))
    assert asked <= said
    if asked:
        assert CODE in codes_in(answer) or not partitions_in(request)


def partitions_in(request: Any) -> bool:
    """True if any list with errors in it is not empty."""
    match request:
        case dict():
            lists = [value for value in request.values() if isinstance(value, list)]
            return all(lists) and all(partitions_in(value) for value in lists)
        case list():
            return all(partitions_in(value) for value in request)
        case _:
            return True


@each_version(REQUESTS)
def test_all_that_was_asked_about_has_failed(api_key: ApiKey, version: int) -> None:
    body = sample_body(api_key, version, Direction.REQUEST)
    request = read_tree(api_key, version, Direction.REQUEST, body)
    assert CODE in codes_in(answered(api_key, version, request))
    check(api_key, version, request)


@pytest.mark.parametrize("each", [each for each in ENDS if schema_of(*each, Direction.REQUEST)], ids=ids)
@given(data=st.data())
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_of_random_requests_too(each: tuple[ApiKey, int], data: st.DataObject) -> None:
    schema: Any = schema_of(*each, Direction.REQUEST)
    check(*each, read_tree(*each, Direction.REQUEST, encode(data.draw(entities(schema)))))


def test_a_group_and_its_partitions_fail_together() -> None:
    topics = [{"name": "t", "partition_indexes": [3]}]
    request = {"groups": [{"group_id": "g", "topics": topics}, {"group_id": "all", "topics": None}]}
    partition = {"partition_index": 3, "committed_offset": -1, "error_code": 14, "error_message": None}
    assert error_answer(ApiKey.OFFSET_FETCH, 8, request, 14)["groups"] == [
        {
            "group_id": "g",
            "error_code": 14,
            "error_message": None,
            "committed_offset": -1,
            "topics": [{"name": "t", "partitions": [partition]}],
        },
        {"group_id": "all", "error_code": 14, "error_message": None, "committed_offset": -1, "topics": []},
    ]


def test_what_is_for_people_is_told_where_there_is_a_place_for_it() -> None:
    request = {"resources": [{"resource_type": 2, "resource_name": "t"}]}
    (result,) = answered(ApiKey.ALTER_CONFIGS, 2, request)["responses"]
    assert result == {"error_code": CODE, "error_message": MESSAGE, "resource_type": 2, "resource_name": "t"}


def test_a_fetch_session_stays() -> None:
    assert error_answer(ApiKey.FETCH, 12, {"session_id": 7, "topics": []}, 70)["session_id"] == 7


MORE_THAN_KAFKA = {
    "results_by_transaction",  # Kafka has only an error of the whole
    "entries",
    "groups",
    "topics",
    "responses",
    "results",
}
"""Lists that Kafka leaves empty in some of these answers; here they have the requested names."""
NOT_KAFKA = {
    ApiKey.CREATE_DELEGATION_TOKEN,  # Kafka returns names that were not asked for
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,  # Kafka leaves the names out of the results
    ApiKey.DESCRIBE_LOG_DIRS,  # Kafka gives no error in versions without a field for it
}


@pytest.mark.smoke
@pytest.mark.kafka
def test_it_is_the_answer_of_kafkas_own_classes() -> None:
    if missing := missing_programs():
        pytest.skip(f"Kafka's classes need Java 17 and Maven; not found: {', '.join(missing)}")
    bodies = {each: sample_body(*each, Direction.REQUEST) for each in REQUESTS}
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars(NEWEST_CLIENTS)}/*", str(PROGRAM)]
    lines = [f"{int(each[0])} {each[1]} {CODE} {body.hex()}\n" for each, body in bodies.items()]
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, timeout=120, check=True)
    for (each, body), line in zip(bodies.items(), done.stdout.splitlines(), strict=True):
        kind, _, said = line.partition(" ")
        assert kind == "answer", (each, line)
        theirs = read_tree(*each, Direction.RESPONSE, bytes.fromhex(said))
        ours = answered(*each, read_tree(*each, Direction.REQUEST, body))
        if each[0] not in NOT_KAFKA:
            assert comparable(ours, theirs) == comparable(theirs, theirs), each


def comparable(value: Any, theirs: Any) -> Any:
    """An answer without the texts for people, without the parts that Kafka leaves out, and without an order."""
    if isinstance(value, dict):
        left_out = {name for name, each in theirs.items() if each == [] and name in MORE_THAN_KAFKA}
        names = value.keys() - left_out - {"error_message"}
        return {name: comparable(value[name], theirs[name]) for name in sorted(names)}
    if isinstance(value, list) and len(value) == len(theirs):
        return sorted((comparable(*pair) for pair in zip(ordered(value), ordered(theirs), strict=True)), key=repr)
    return value


def ordered(elements: list[Any]) -> list[Any]:
    """Elements ordered by their names, which come before the parts that Kafka leaves out."""
    return sorted(
        elements,
        key=lambda each: repr([v for k, v in each.items() if k != "topics"]) if isinstance(each, dict) else repr(each),
    )
