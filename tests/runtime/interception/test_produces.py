"""Produce requests through interceptors: the records that go on, the refused ones, and the answers to the producer."""

from __future__ import annotations

from typing import Any

import pytest

from mesh.interceptors.chain import OnFailure
from mesh.interceptors.spi import KEEP, Effect, Outcome, Record, Reject
from mesh.runtime.interception.messages import ReadRequest
from mesh.runtime.interception.produces import ProduceRequests
from mesh.wire.apis import ApiKey
from mesh.wire.interception import Decision
from mesh.wire.passing import RequestHead
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.trees import Tree
from tests.interceptors.fakes import Does, batch, values
from tests.runtime.interception.requests import NOBODY, ORDERS, OTHERS, Cluster, answered, client_of, framed, read
from tests.runtime.relay.loops import anyhow

VERSIONS = list(RELAYED_APIS[ApiKey.PRODUCE].all())
BY_ID = 13


def judge(record: Record) -> Outcome:
    match record.value:
        case b"bad":
            raise Reject("it is bad")
        case b"bug":
            raise RuntimeError("a bug")
        case b"change":
            return record.with_value(b"changed")
    return KEEP


def requests(cluster: Cluster | None = None, on_failure: OnFailure = OnFailure.FAIL) -> ProduceRequests:
    return ProduceRequests(client_of(Does(judge, Effect.MAP), on_failure, cluster))


def produce(version: int, orders: list[bytes], others: list[bytes], acks: int = -1) -> tuple[RequestHead, memoryview]:
    """A Produce with values by partition of two topics."""
    topics = [(name, id, contents) for name, id, contents in (("orders", ORDERS, orders), ("others", OTHERS, others))]
    tree = {
        "transactional_id": "t",
        "acks": acks,
        "timeout_ms": 5,
        "topic_data": [
            {
                ("topic_id" if version >= BY_ID else "name"): id if version >= BY_ID else name,
                "partition_data": [{"index": index, "records": batch(value)} for index, value in enumerate(contents)],
            }
            for name, id, contents in topics
            if contents
        ],
    }
    return framed(ApiKey.PRODUCE, version, tree)


def sent(head: RequestHead, decision: Decision) -> dict[tuple[object, int], bytes | None]:
    """The values in a request, by topic and partition."""
    assert decision.frame is not None
    frame = b"".join(decision.frame)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    tree = ReadRequest.of(head, memoryview(frame)).tree
    return {
        (topic.get("name") or topic["topic_id"], each["index"]): values(each["records"])[0][1]
        for topic in tree["topic_data"]
        for each in topic["partition_data"]
    }


def topic(version: int, name: str = "orders") -> object:
    return {"orders": ORDERS, "others": OTHERS}[name] if version >= BY_ID else name


@anyhow
@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize("version", VERSIONS)
async def test_what_nobody_wants_to_see_passes_as_it_came(version: int, acks: int) -> None:
    produces = requests()
    await produces._client.names.learn([ORDERS, OTHERS])
    for others in ([], [b"bad"]):
        head, frame = produce(version, [], others, acks)
        assert produces.decide(head, frame) == Decision([frame], is_answered=acks != 0)


@anyhow
@pytest.mark.parametrize("version", VERSIONS)
async def test_what_nobody_changes_passes_as_it_came(version: int) -> None:
    head, frame = produce(version, [b"good"], [b"bad"])
    produces = requests()
    assert produces.decide(head, frame) is None
    decision = await produces.decide_later(head, frame)
    assert decision.frame == [frame] and decision.change is None and decision.is_answered


@anyhow
@pytest.mark.parametrize("version", VERSIONS)
async def test_changed_records_take_the_place_of_theirs(version: int) -> None:
    head, frame = produce(version, [b"good", b"change"], [b"change"])
    decision = await requests().decide_later(head, frame)
    assert sent(head, decision) == {
        (topic(version), 0): b"good",
        (topic(version), 1): b"changed",
        (topic(version, "others"), 0): b"change",
    }
    assert decision.change is None


@anyhow
async def test_what_its_client_may_not_write_is_refused_behind_them() -> None:
    interceptor = Does(judge, Effect.MAP)
    produces = ProduceRequests(client_of(interceptor, may_write=False))
    head, frame = produce(9, [b"bad"], [])
    assert produces.decide(head, frame) == Decision([frame])
    assert not interceptor.shown


def answer(version: int, *partitions: tuple[str, int]) -> memoryview:
    """The cluster's answer for these partitions."""
    responses: list[Tree] = []
    for name, index in partitions:
        of_topic: Any = {"topic_id" if version >= BY_ID else "name": topic(version, name)}
        of_topic["partition_responses"] = [{"index": index, "error_code": 0, "base_offset": 100 + index}]
        responses.append(of_topic)
    return answered(ApiKey.PRODUCE, version, {"responses": responses})


def told(tree: Tree) -> dict[tuple[object, int], Tree]:
    return {
        (each.get("name") or each["topic_id"], partition["index"]): partition
        for each in tree["responses"]
        for partition in each["partition_responses"]
    }


@anyhow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("value", [b"bad", b"bug"])
async def test_a_partition_is_refused_and_the_others_go_on(version: int, value: bytes) -> None:
    head, frame = produce(version, [b"good", value], [b"bad"])
    decision = await requests().decide_later(head, frame)
    assert set(sent(head, decision)) == {(topic(version), 0), (topic(version, "others"), 0)}
    assert decision.change is not None
    found = told(read(head, await decision.change.changed(answer(version, ("orders", 0), ("others", 0)))))
    assert {place: each["error_code"] for place, each in found.items()} == {
        (topic(version), 0): 0,
        (topic(version), 1): 87,
        (topic(version, "others"), 0): 0,
    }
    assert found[topic(version), 0]["base_offset"] == 100
    refused = found[topic(version), 1]
    assert refused["base_offset"] == -1
    if version >= 8 and value == b"bad":
        assert refused["record_errors"] == [{"batch_index": 0, "batch_index_error_message": "it is bad"}]
        assert refused["error_message"] == "1 records were rejected: it is bad"


@anyhow
@pytest.mark.parametrize("version", VERSIONS)
async def test_where_all_is_refused_nothing_is_sent(version: int) -> None:
    head, frame = produce(version, [b"bad", b"bad"], [])
    decision = await requests().decide_later(head, frame)
    assert decision.frame is None
    assert [each["error_code"] for each in told(read(head, decision.answer)).values()] == [87, 87]


@anyhow
async def test_without_acks_nobody_is_told() -> None:
    for values_of, passes in ([b"bad"], False), ([b"good", b"bad"], True), ([b"good"], True), ([b"change"], True):
        head, frame = produce(9, values_of, [], acks=0)
        decision = await requests().decide_later(head, frame)
        assert (decision.frame is not None) is passes
        assert (decision.answer, decision.change, decision.is_answered) == (None, None, False)


@anyhow
async def test_a_bug_may_pass() -> None:
    head, frame = produce(9, [b"bug"], [])
    decision = await requests(on_failure=OnFailure.PASS).decide_later(head, frame)
    assert decision.frame == [frame]


@anyhow
@pytest.mark.parametrize(("at", "code"), [(-1, 2), (16, 43)])
async def test_records_that_cannot_be_read_are_refused(at: int, code: int) -> None:
    records = bytearray(batch(b"good"))
    records[at] = records[at] ^ 1 if at < 0 else 1
    tree = {"acks": 1, "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": bytes(records)}]}]}
    head, frame = framed(ApiKey.PRODUCE, 9, tree)
    decision = await requests().decide_later(head, frame)
    assert [each["error_code"] for each in told(read(head, decision.answer)).values()] == [code]


@anyhow
async def test_ids_are_learnt_once_and_unknown_ones_are_refused() -> None:
    cluster = Cluster()
    produces = requests(cluster)
    for _ in range(2):
        head, frame = produce(BY_ID, [b"change"], [b"good"])
        assert sent(head, await produces.decide_later(head, frame))[ORDERS, 0] == b"changed"
    assert cluster.asked == [[ORDERS, OTHERS]]
    tree = {"acks": 1, "topic_data": [{"topic_id": NOBODY, "partition_data": [{"index": 0, "records": batch(b"a")}]}]}
    head, frame = framed(ApiKey.PRODUCE, BY_ID, tree)
    assert produces.decide(head, frame) is None
    decision = await produces.decide_later(head, frame)
    assert [each["error_code"] for each in told(read(head, decision.answer)).values()] == [100]


@pytest.mark.parametrize("version", VERSIONS)
@anyhow
async def test_bytes_that_nobody_has_looked_at_do_not_pass(version: int) -> None:
    for orders in ([], [b"keep"]):
        head, frame = produce(version, orders, [b"x"])
        produces = requests()
        plain = produces.decide(head, frame) or await produces.decide_later(head, frame)
        longer = head._replace(length=head.length + 4)
        with_tail = memoryview(bytearray(longer.length.to_bytes(4, "big") + bytes(frame[4:]) + b"tail"))
        assert produces.decide(longer, with_tail) is None
        decision = await produces.decide_later(longer, with_tail)
        assert plain.frame is not None and decision.frame is not None
        assert b"".join(decision.frame) == b"".join(plain.frame)
