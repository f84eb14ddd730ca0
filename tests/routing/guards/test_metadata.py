"""Metadata requests to clusters, and the answer to the client."""

from __future__ import annotations

from uuid import UUID

from mesh.routing.guards.metadata import JudgedMetadata, judged_metadata
from mesh.security.rules import Access, Operation, ResourceType
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree
from tests.routing.guards.test_judging import Names, access, allow

TOPIC = ResourceType.TOPIC
READS = access(allow(TOPIC, "orders", Operation.READ))
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def judged(request: Tree, may: Access = READS, version: int = 12) -> JudgedMetadata:
    return judged_metadata(request, version, may, Names())


def named(*names: str, **more: object) -> Tree:
    return {"topics": [{"name": name} for name in names], **more}


def told(name: str | None, number: int, code: int = 0) -> Tree:
    return {"name": name, "topic_id": UUID(int=number), "error_code": code, "partitions": []}


def test_all_topics() -> None:
    for request, version in (({"topics": None}, 12), ({"topics": []}, 0)):
        found = judged(request, version=version)
        assert (found.requests, found.refused, found.refusals) == ((request,), (), ())
        assert found.sees("orders") and not found.sees("secret")


def test_a_topic_that_is_refused_is_not_asked_about() -> None:
    found = judged(named("secret"))
    assert found.requests == ({"topics": []},)
    (topic,) = found.complete([{"topics": [], "brokers": [1]}])["topics"]
    assert (topic["name"], topic["error_code"], topic["topic_id"]) == ("secret", REFUSED, ZERO_ID)
    assert [each.name for each in found.refusals] == ["secret"]


def test_an_id_of_which_nothing_was_known() -> None:
    asked = [{"name": None, "topic_id": UUID(int=number)} for number in (1, 2, 3)]
    found = judged({"topics": asked})
    assert found.requests == ({"topics": [asked[0], asked[2]]},)
    answer: Tree = {"topics": [told("orders", 1), told("made meanwhile", 3)]}
    topics = {each["topic_id"].int: (each["name"], each["error_code"]) for each in found.complete([answer])["topics"]}
    assert topics == {1: ("orders", 0), 2: (None, REFUSED), 3: (None, REFUSED)}
    unknown: Tree = {"topics": [told(None, 3, ErrorCode.UNKNOWN_TOPIC_ID)]}
    topics_of = [each["error_code"] for each in found.complete([unknown])["topics"]]
    assert topics_of == [ErrorCode.UNKNOWN_TOPIC_ID, REFUSED]


def test_topics_are_created_for_clients_that_may_create_them() -> None:
    may = access(allow(TOPIC, "*", Operation.READ), allow(TOPIC, "orders", Operation.CREATE))
    found = judged(named("orders", "other"), may)
    assert [(each["topics"], each.get("allow_auto_topic_creation", True)) for each in found.requests] == [
        ([{"name": "other"}], False),
        ([{"name": "orders"}], True),
    ]
    (request,) = judged(named("orders", "other", allow_auto_topic_creation=False), may).requests
    assert request == named("orders", "other", allow_auto_topic_creation=False)
    in_cluster = access(
        allow(TOPIC, "*", Operation.READ), allow(ResourceType.CLUSTER, "kafka-cluster", Operation.CREATE)
    )
    assert judged(named("orders", "other"), in_cluster).requests == (named("orders", "other"),)
