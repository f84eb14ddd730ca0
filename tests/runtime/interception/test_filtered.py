"""Produce requests from which interceptors drop records: the records that go on, their sequences, and the answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mesh.interceptors.spi import DROP, KEEP, Effect, Outcome, Record, Reject
from mesh.records.numbering import producer_batch
from mesh.records.rewrite import records_of
from mesh.runtime.interception.messages import ReadRequest
from mesh.runtime.interception.produces import ProduceRequests
from mesh.wire.apis import ApiKey
from mesh.wire.interception import Decision
from mesh.wire.passing import RequestHead
from mesh.wire.trees import Tree
from tests.interceptors.fakes import Does
from tests.records.tails import tails
from tests.records.test_numbering import batch
from tests.runtime.interception.requests import answered, client_of, framed, read
from tests.runtime.relay.loops import anyhow

VERSION = 11


def judge(record: Record) -> Outcome:
    if record.value == b"bad":
        raise Reject("it is bad")
    return DROP if record.value == b"drop" else KEEP


def produces() -> ProduceRequests:
    return ProduceRequests(client_of(Does(judge, Effect.FILTER)))


def request(*batches: bytes, acks: int = -1, version: int = VERSION) -> tuple[RequestHead, memoryview]:
    """A Produce with a batch for each partition of `orders`."""
    partitions = [{"index": index, "records": records} for index, records in enumerate(batches)]
    topics = [{"name": "orders", "partition_data": partitions}]
    tree = {"transactional_id": None, "acks": acks, "timeout_ms": 5, "topic_data": topics}
    return framed(ApiKey.PRODUCE, version, tree)


def sent(head: RequestHead, decision: Decision) -> dict[int, tuple[int, list[bytes | None]]]:
    """The base sequence and the values in a request, by partition."""
    assert decision.frame is not None
    tree = ReadRequest.of(head, memoryview(b"".join(decision.frame))).tree
    found = {}
    for each in tree["topic_data"][0]["partition_data"]:
        records = memoryview(each["records"])
        found[each["index"]] = producer_batch(records).sequence, [one.value for one in records_of(records)]
    return found


def told(head: RequestHead, pieces: Any) -> dict[int, Tree]:
    return {each["index"]: each for each in read(head, pieces)["responses"][0]["partition_responses"]}


def broker(version: int, errors: dict[int, int]) -> memoryview:
    partitions = [{"index": index, "error_code": code, "base_offset": 100} for index, code in errors.items()]
    return answered(ApiKey.PRODUCE, version, {"responses": [{"name": "orders", "partition_responses": partitions}]})


@anyhow
async def test_sequences_of_what_is_kept_follow_each_other() -> None:
    requests = produces()
    for values, first, expected in (
        ([b"a", b"drop", b"b"], 0, (0, [b"a", b"b"])),
        ([b"c"], 3, (2, [b"c"])),
        ([b"drop", b"d"], 4, (3, [b"d"])),
    ):
        head, frame = request(batch(values, sequence=first))
        for _ in range(2):  # and again, since the answer is lost
            assert sent(head, await requests.decide_later(head, frame)) == {0: expected}


@anyhow
async def test_a_producer_that_is_not_idempotent_needs_no_sequences() -> None:
    head, frame = request(batch([b"drop", b"a"], -1, -1, -1), batch([b"drop"], -1, -1, -1))
    requests = produces()
    assert sent(head, await requests.decide_later(head, frame)) == {0: (-1, [b"a"])}
    assert not len(requests._client.sequences)


@anyhow
@pytest.mark.parametrize("version", [3, 8, 11])
async def test_what_is_dropped_whole_is_answered_as_stored_at_no_offset(version: int) -> None:
    head, frame = request(batch([b"drop"], sequence=0), batch([b"a"], sequence=0), version=version)
    decision = await produces().decide_later(head, frame)
    assert sent(head, decision) == {1: (0, [b"a"])} and decision.change is not None
    found = told(head, await decision.change.changed(broker(version, {1: 0})))
    assert {index: (each["error_code"], each["base_offset"]) for index, each in found.items()} == {
        0: (0, -1),
        1: (0, 100),
    }


@anyhow
@pytest.mark.parametrize("acks", [-1, 0])
async def test_nothing_is_sent_where_all_is_dropped(acks: int) -> None:
    head, frame = request(batch([b"drop", b"drop"], sequence=0), acks=acks)
    decision = await produces().decide_later(head, frame)
    assert decision.frame is None
    if acks:
        assert told(head, decision.answer)[0]["base_offset"] == -1
    else:
        assert (decision.answer, decision.is_answered) == (None, False)


@anyhow
@pytest.mark.parametrize(("version", "code", "log_start"), [(4, 45, None), (5, 59, -2), (11, 59, -2)])
async def test_an_unknown_producer_is_told_so(version: int, code: int, log_start: int | None) -> None:
    head, frame = request(batch([b"a"], sequence=7), version=version)
    requests = produces()
    decision = await requests.decide_later(head, frame)
    assert decision.frame is None
    found = told(head, decision.answer)[0]
    assert (found["error_code"], found.get("log_start_offset")) == (code, log_start)
    assert sum(requests._client.runner.counts.unsequenced.values()) == 1


@anyhow
async def test_a_gap_and_an_old_epoch_are_told_as_by_a_broker() -> None:
    requests = produces()
    for epoch, first, code in ((2, 0, None), (2, 5, 45), (3, 0, None), (2, 1, 47)):
        head, frame = request(batch([b"a"], epoch=epoch, sequence=first))
        decision = await requests.decide_later(head, frame)
        if code is None:
            assert sent(head, decision) == {0: (0, [b"a"])}
        else:
            assert told(head, decision.answer)[0]["error_code"] == code


@anyhow
@pytest.mark.parametrize(("code", "is_decided"), [(10, False), (87, False), (6, True), (7, True), (0, True)])
async def test_what_a_broker_refuses_before_it_appends_is_judged_again(code: int, is_decided: bool) -> None:
    requests = produces()
    head, frame = request(batch([b"a", b"drop"], sequence=0))
    decision = await requests.decide_later(head, frame)
    assert decision.change is not None
    answer = broker(VERSION, {0: code})
    assert await decision.change.changed(answer) == [answer], "nothing of it is made here"
    head, frame = request(batch([b"drop", b"b"], sequence=0))
    expected = [b"drop"] if is_decided else [b"b"]
    assert sent(head, await requests.decide_later(head, frame)) == {0: (0, expected)}


@anyhow
async def test_what_is_rejected_takes_no_sequence() -> None:
    requests = produces()
    head, frame = request(batch([b"drop", b"bad"], sequence=0))
    assert told(head, (await requests.decide_later(head, frame)).answer)[0]["error_code"] == 87
    head, frame = request(batch([b"drop", b"good"], sequence=0))
    assert sent(head, await requests.decide_later(head, frame)) == {0: (0, [b"good"])}


@anyhow
async def test_what_comes_on_another_connection_meanwhile_is_judged_as_there() -> None:
    """Both requests are planned before one is numbered."""
    chances = iter([DROP, KEEP])
    client = client_of(Does(lambda _: next(chances), Effect.FILTER))
    requests = ProduceRequests(client)
    one = request(batch([b"a"], sequence=0))
    decisions = await asyncio.gather(requests.decide_later(*one), requests.decide_later(*one))
    assert [each.frame for each in decisions] == [None, None]
    assert all(told(one[0], each.answer)[0]["error_code"] == 0 for each in decisions)


@anyhow
async def test_bytes_behind_a_batch_are_refused_as_by_a_broker() -> None:
    requests = produces()
    for tail, is_ignored in tails():
        head, frame = request(batch([b"drop", b"a"], -1, -1, -1) + tail)
        decision = await requests.decide_later(head, frame)
        if is_ignored:
            assert sent(head, decision) == {0: (-1, [b"a"])}, tail
        else:
            assert told(head, decision.answer)[0]["error_code"] == 2, tail


@anyhow
async def test_several_batches_of_a_partition_are_refused() -> None:
    head, frame = request(batch([b"a"], sequence=0) + batch([b"a"], sequence=1))
    assert told(head, (await produces().decide_later(head, frame)).answer)[0]["error_code"] == 2
