"""Requests and answers of a client under rules, in every version of Produce and Fetch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from mesh.routing.guards.judge import Judge
from mesh.routing.guards.translation import GuardedTranslation
from mesh.routing.kit.union_apis import SERVED_BY_UNIONS
from mesh.security.rules import UNLIMITED, Access, Operation, Refusal, ResourceType
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.errors import ProtocolError
from mesh.wire.fetched_topics import FetchedTopics
from mesh.wire.messages import Buffer
from mesh.wire.trees import Tree
from tests.routing.guards.test_judging import Names, access, allow, offsets
from tests.routing.test_translation import passed, translation
from tests.routing.unions import SAME
from tests.runtime.interception.requests import answered, framed

WRITES = access(
    allow(ResourceType.TOPIC, "orders", Operation.WRITE),
    allow(ResourceType.TRANSACTIONAL_ID, "mine", Operation.WRITE),
)
READS = access(allow(ResourceType.TOPIC, "orders", Operation.READ))
IDS = {"orders": UUID(int=1), "secret": UUID(int=2), "unheard": UUID(int=3)}
FETCHES, PRODUCES = SERVED_BY_UNIONS[ApiKey.FETCH].all(), SERVED_BY_UNIONS[ApiKey.PRODUCE].all()


class Client:
    def __init__(self, may: Access) -> None:
        self.access = may


def nothing_refused(api_key: ApiKey, frame: Buffer, refusals: Sequence[Refusal]) -> None:
    """Takes the refusals of a request that ends the connection."""


def guarded(may: Access) -> Any:
    """A connection in front of a leaf that has all of these topics."""
    return GuardedTranslation(translation(0, SAME), Judge(Client(may), Names()), nothing_refused)


def named(key: str, name: str) -> Tree:
    return {key: name, "topic_id": IDS[name]}


def produce(*topics: str, acks: int = -1, transactional_id: str | None = None) -> Tree:
    data = [named("name", each) | {"partition_data": [{"index": 0, "records": b""}]} for each in topics]
    return {"acks": acks, "timeout_ms": 1_000, "transactional_id": transactional_id, "topic_data": data}


def fetch(*topics: str, follower: int = -1, epoch: int = 0) -> Tree:
    partition = {"partition": 0, "fetch_offset": 5, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    asked = [named("topic", each) | {"partitions": [partition]} for each in topics]
    replica = {"replica_id": follower, "replica_state": {"replica_id": follower, "replica_epoch": 1}}
    return {**replica, "max_bytes": 1 << 20, "session_id": 7, "session_epoch": epoch, "topics": asked}


@pytest.mark.parametrize("version", PRODUCES)
def test_a_produce_passes_if_all_of_it_is_allowed(version: int) -> None:
    to = guarded(WRITES)
    assert passed(to, ApiKey.PRODUCE, version, produce("orders")) is not None
    assert passed(to, ApiKey.PRODUCE, version, produce("orders", "secret")) is None
    assert passed(to, ApiKey.PRODUCE, version, produce("orders", transactional_id="mine")) is not None
    assert passed(to, ApiKey.PRODUCE, version, produce("orders", transactional_id="other")) is None
    if version > 12:
        assert passed(to, ApiKey.PRODUCE, version, produce("unheard")) is None
    assert passed(to, ApiKey.PRODUCE, version, produce("orders", acks=0)) is not None
    with pytest.raises(ProtocolError):
        passed(to, ApiKey.PRODUCE, version, produce("secret", acks=0))
    assert passed(guarded(UNLIMITED), ApiKey.PRODUCE, version, produce("orders", "secret")) is not None


@pytest.mark.parametrize("version", FETCHES)
def test_a_fetch_passes_without_a_session(version: int) -> None:
    to = guarded(READS)
    found = passed(to, ApiKey.FETCH, version, fetch("orders"))
    assert found is not None
    (topic,) = found["topics"]
    assert topic["partitions"][0]["fetch_offset"] == 5 and found["max_bytes"] == 1 << 20
    if version >= 7:
        assert (found["session_id"], found["session_epoch"]) == (0, -1)
        assert passed(to, ApiKey.FETCH, version, fetch("orders", epoch=1)) is None
    assert passed(to, ApiKey.FETCH, version, fetch("orders", "secret")) is None
    assert passed(to, ApiKey.FETCH, version, fetch("orders", follower=1)) is None
    if version > 12:
        assert passed(to, ApiKey.FETCH, version, fetch("unheard")) is None
    everybody = passed(guarded(UNLIMITED), ApiKey.FETCH, version, fetch("secret", epoch=1))
    assert everybody is not None and everybody.get("session_id", 7) == 7


@pytest.mark.parametrize("may", [READS, WRITES, UNLIMITED])
def test_nothing_passes_but_what_was_judged(may: Access) -> None:
    """Tagged fields that the mesh does not know, in header and body, and bytes behind the body."""
    asked = {**fetch("orders"), "replica_state": None}
    requests = [
        *((ApiKey.FETCH, version, asked) for version in FETCHES if version <= 12 or may is not UNLIMITED),
        *((ApiKey.PRODUCE, version, produce("orders")) for version in PRODUCES),
        *((ApiKey.LIST_OFFSETS, version, offsets("orders")) for version in (5, 6)),
    ]
    several = 0
    for api_key, version, request in requests:
        to = guarded(may)
        usual = passed(to, api_key, version, request)
        assert passed(to, api_key, version, request, lambda body: body + b"tail") == usual
        if is_flexible(api_key, version):
            assert passed(to, api_key, version, request, lambda body: body[:-1] + b"\1\x60\1x") == usual
        several += usual is not None
    assert several > 5


def test_others_pass_if_they_are_judged_so() -> None:
    to = guarded(READS)
    assert passed(to, ApiKey.LIST_OFFSETS, 5, offsets("orders")) is not None
    assert passed(to, ApiKey.LIST_OFFSETS, 5, offsets("orders", "secret")) is None
    assert passed(to, ApiKey.METADATA, 12, {"topics": None}) is None, "it never does"


def test_answers_are_those_of_the_leaf() -> None:
    inner = translation(0, SAME)
    to = GuardedTranslation(inner, Judge(Client(READS), Names()), nothing_refused)
    assert to.walker(ApiKey.FETCH, 12, 100) is None
    assert to.walker(ApiKey.FETCH, 16, 100) is not None
    for is_plain in (False, True):
        assert to.is_changed(ApiKey.PRODUCE, 12, is_plain=is_plain) is not is_plain
    answer = memoryview(b"\0\0\0\7\0\0\0\0\0\0\0\0\0")
    assert b"".join(to.answer(ApiKey.HEARTBEAT, 3, answer[:10])) == b"\0\0\0\x0a" + bytes(answer[:10])


@pytest.mark.parametrize("version", FETCHES)
def test_an_answer_has_only_topics_that_were_judged(version: int) -> None:
    def checked(may: Access) -> FetchedTopics | None:
        request = guarded(may).request(*framed(ApiKey.FETCH, version, fetch("orders")))
        assert request is not None
        check: FetchedTopics | None = request.check
        return check

    def answer(*topics: str) -> memoryview:
        tree = {"responses": [named("topic", each) | {"partitions": [{"records": b"x"}]} for each in topics]}
        return answered(ApiKey.FETCH, version, tree)

    for asked in ([], ["orders"]):
        check = checked(READS)
        assert check is not None
        check.feed(answer(*asked))
    for others in (["secret"], ["orders", "secret"], ["unheard"]):
        check = checked(READS)
        assert check is not None
        with pytest.raises(ProtocolError, match="which was not asked for"):
            check.feed(answer(*others))
    assert checked(UNLIMITED) is None
