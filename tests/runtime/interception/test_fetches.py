"""Fetch through interceptors: sessions, skipped offsets, failures, and the bytes of an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import nullcontext
from struct import Struct
from typing import Any

import pytest

from mesh.interceptors.chain import OnFailure
from mesh.interceptors.shipped.mask import Mask, MaskConfig
from mesh.interceptors.spi import DROP, KEEP, Interceptor, Outcome, Record
from mesh.records.batch import seal
from mesh.records.compression import compress, decompress
from mesh.records.rewrite import whole_batches
from mesh.runtime.interception.fetches import LARGEST_FETCH, FetchRequests
from mesh.runtime.interception.messages import ReadRequest
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.interception import AnswerChange, Decision, FollowUp
from mesh.wire.passing import RequestHead
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.trees import Tree
from tests.interceptors.fakes import Does, batch, values
from tests.runtime.interception.requests import NOBODY, ORDERS, OTHERS, Cluster, answered, client_of, framed, read
from tests.runtime.relay.loops import anyhow

VERSIONS = list(RELAYED_APIS[ApiKey.FETCH].all())
FIRST_WITH_SESSIONS, FIRST_BY_ID = 7, 13


def judge(record: Record) -> Outcome:
    match record.value:
        case b"drop":
            return DROP
        case b"bug":
            raise RuntimeError("a bug")
        case b"change":
            return record.with_value(b"changed")
    return KEEP


def requests(
    interceptor: Interceptor | None = None,
    on_failure: OnFailure = OnFailure.FAIL,
    cluster: Cluster | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> FetchRequests:
    return FetchRequests(client_of(interceptor or Does(judge), on_failure, cluster), clock)


def topic(version: int, name: str) -> dict[str, object]:
    ids = {"orders": ORDERS, "others": OTHERS, "nobody": NOBODY}
    return {"topic_id": ids[name]} if version >= FIRST_BY_ID else {"topic": name}


def fetch(
    version: int, offsets: dict[str, int], epoch: int = -1, max_bytes: int = 50 << 20, wait: int = 0, session: int = 5
) -> tuple[RequestHead, memoryview]:
    """A Fetch of partition 0 of each topic."""
    topics = [
        {**topic(version, name), "partitions": [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 9}]}
        for name, offset in offsets.items()
    ]
    known = {"session_id": session, "session_epoch": epoch}
    tree = {"max_wait_ms": wait, "max_bytes": max_bytes, **known, "topics": topics}
    return framed(ApiKey.FETCH, version, tree)


def answer(version: int, records: dict[str, bytes], code: int = 0, session: int = 0, **more: Any) -> memoryview:
    """An answer for partition 0 of each topic."""
    responses = [
        {
            **topic(version, name),
            "partitions": [{"partition_index": 0, "error_code": code, "high_watermark": 900, "records": each, **more}],
        }
        for name, each in records.items()
    ]
    return answered(ApiKey.FETCH, version, {"session_id": session, "responses": responses})


def with_tail(head: RequestHead, frame: memoryview) -> tuple[RequestHead, memoryview]:
    longer = head._replace(length=head.length + 4)
    return longer, memoryview(bytearray(longer.length.to_bytes(4, "big") + bytes(frame[4:]) + b"tail"))


async def decided(fetches: FetchRequests, head: RequestHead, frame: memoryview) -> Decision:
    return fetches.decide(head, frame) or await fetches.decide_later(head, frame)


def upstream(head: RequestHead, decision: Decision) -> Tree:
    """The request in the form that the cluster gets."""
    assert decision.frame is not None
    frame = b"".join(decision.frame)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return ReadRequest.of(head, memoryview(frame)).tree


def change_of(decision: Decision) -> AnswerChange:
    assert decision.change is not None
    return decision.change


def partition_of(tree: Tree) -> Tree:
    ((found,),) = ([*each["partitions"]] for each in tree["responses"])
    partition: Tree = found
    return partition


@anyhow
@pytest.mark.parametrize("version", VERSIONS)
async def test_what_nobody_wants_to_see_passes_with_its_session(version: int) -> None:
    fetches = requests()
    head, frame = fetch(version, {"others": 7}, epoch=0, max_bytes=LARGEST_FETCH, session=0)
    decision = await decided(fetches, head, frame)
    assert decision.frame == [frame]
    if version >= FIRST_WITH_SESSIONS:
        opened = answer(version, {"others": batch(b"a")}, session=5)
        assert await change_of(decision).changed(opened) == [opened]
        for epoch, offsets in ((1, {}), (2, {"others": 9})):
            head, frame = fetch(version, offsets, epoch)
            assert (await decided(fetches, head, frame))._replace(check=None) == Decision([frame])
    head, frame = fetch(version, {"others": 9})
    assert (await decided(fetches, head, frame))._replace(check=None) == Decision([frame])


@anyhow
@pytest.mark.parametrize("version", [each for each in VERSIONS if each >= FIRST_WITH_SESSIONS])
async def test_a_session_is_that_of_the_last_answer_that_opened_one(version: int) -> None:
    fetches = requests()
    head, frame = fetch(version, {"others": 7}, epoch=0)
    first = await decided(fetches, head, frame)
    assert upstream(head, first)["max_bytes"] == LARGEST_FETCH, "its answer is kept until it is complete"
    second = await decided(fetches, head, frame)

    async def is_unknown() -> bool:
        later, later_frame = fetch(version, {}, epoch=1)
        decision = await decided(fetches, later, later_frame)
        if decision.frame is None:
            assert read(later, decision.answer)["error_code"] == 70
        return decision.frame is None

    assert await is_unknown(), "no answer has come"
    await change_of(first).changed(answer(version, {"others": b""}, session=5))
    assert await is_unknown(), "another session was opened"
    await change_of(second).changed(answer(version, {"others": b""}, session=6))
    assert await is_unknown(), "it has the id 6"
    third = await decided(fetches, head, frame)
    await change_of(third).changed(answer(version, {"others": b""}, session=5))
    assert not await is_unknown()
    await decided(fetches, *fetch(version, {"others": 7}))
    assert await is_unknown(), "a request without a session ends it"


@anyhow
@pytest.mark.parametrize("version", [each for each in VERSIONS if each >= FIRST_WITH_SESSIONS])
@pytest.mark.parametrize("epoch", [-1, 0])
@pytest.mark.parametrize("name", ["others", "orders"])
async def test_a_fetch_ends_only_the_session_of_its_connection(version: int, epoch: int, name: str) -> None:
    fetches = requests()
    opening = await decided(fetches, *fetch(version, {"others": 7}, epoch=0, session=0))
    await change_of(opening).changed(answer(version, {"others": b""}, session=5))
    for session, ended in ((5, 5), (6, 0)):
        head, frame = fetch(version, {name: 7}, epoch, session=session)
        assert upstream(head, await decided(fetches, head, frame))["session_id"] == ended


@anyhow
@pytest.mark.parametrize("version", VERSIONS)
async def test_what_somebody_wants_to_see_has_no_session_and_a_bound(version: int) -> None:
    head, frame = fetch(version, {"others": 7, "orders": 8}, epoch=0)
    decision = await decided(requests(), head, frame)
    tree = upstream(head, decision)
    assert tree.get("session_epoch", -1) == -1
    assert tree["max_bytes"] == LARGEST_FETCH
    assert [each["partitions"][0]["fetch_offset"] for each in tree["topics"]] == [7, 8]
    change_of(decision)


@anyhow
@pytest.mark.parametrize("version", [each for each in VERSIONS if each >= FIRST_WITH_SESSIONS])
async def test_a_session_ends_where_somebody_wants_to_see_what_it_gets(version: int) -> None:
    fetches = requests()
    head, frame = fetch(version, {"others": 7}, epoch=0)
    await decided(fetches, head, frame)
    for offsets, epoch in (({"orders": 1}, 1), ({}, 2)):
        head, frame = fetch(version, offsets, epoch)
        decision = await decided(fetches, head, frame)
        assert decision.frame is None
        assert read(head, decision.answer)["error_code"] == 70


@anyhow
@pytest.mark.parametrize("version", VERSIONS)
async def test_answers(version: int) -> None:
    head, frame = fetch(version, {"orders": 0, "others": 0})
    decision = await decided(requests(), head, frame)
    other = batch(b"drop")
    original = answer(version, {"orders": batch(b"drop", b"change", b"a"), "others": other})
    tree = read(head, await change_of(decision).changed(original))
    orders, others = (each["partitions"][0] for each in tree["responses"])
    assert values(orders["records"]) == [(1, b"changed"), (2, b"a")]
    assert others["records"] == other
    same = answer(version, {"orders": batch(b"a"), "others": other})
    assert await change_of(decision).changed(same) == [same]


@anyhow
@pytest.mark.parametrize("version", VERSIONS)
async def test_what_is_dropped_whole_is_passed_over_by_the_next_one(version: int) -> None:
    fetches = requests()
    head, frame = fetch(version, {"orders": 10})
    decision = await decided(fetches, head, frame)
    dropped = answer(version, {"orders": batch(b"drop", b"drop", base=10) + batch(b"drop", base=12)})
    partition = partition_of(read(head, await change_of(decision).changed(dropped)))
    assert (partition["error_code"], partition["records"], partition["high_watermark"]) == (0, b"", 900)
    for _ in range(2):  # it stays so as long as the client asks for the same
        again = await decided(fetches, *fetch(version, {"orders": 10}))
        (of_topic,) = upstream(head, again)["topics"]
        assert of_topic["partitions"][0]["fetch_offset"] == 13
    nothing = answer(version, {"orders": b""})
    assert await change_of(again).changed(nothing) == [nothing]
    found = partition_of(
        read(head, await change_of(again).changed(answer(version, {"orders": batch(b"drop", b"a", base=13)})))
    )
    assert values(found["records"]) == [(14, b"a")]
    after = await decided(fetches, *fetch(version, {"orders": 15}))
    assert upstream(head, after)["topics"][0]["partitions"][0]["fetch_offset"] == 15


@anyhow
async def test_the_end_of_an_answer_is_passed_over_too() -> None:
    fetches = requests()
    decision = await decided(fetches, *fetch(12, {"orders": 0}))
    await change_of(decision).changed(answer(12, {"orders": batch(b"a") + batch(b"drop", base=1)}))
    head, frame = fetch(12, {"orders": 1})
    assert upstream(head, await decided(fetches, head, frame))["topics"][0]["partitions"][0]["fetch_offset"] == 2


@anyhow
async def test_a_seek_is_a_seek() -> None:
    fetches = requests()
    decision = await decided(fetches, *fetch(12, {"orders": 10}))
    await change_of(decision).changed(answer(12, {"orders": batch(b"drop", base=10)}))
    for offset in (3, 10):
        head, frame = fetch(12, {"orders": offset})
        assert (
            upstream(head, await decided(fetches, head, frame))["topics"][0]["partitions"][0]["fetch_offset"] == offset
        )


@anyhow
async def test_a_truncated_log_is_asked_for_again_where_the_client_is() -> None:
    fetches = requests()
    decision = await decided(fetches, *fetch(12, {"orders": 10}))
    await change_of(decision).changed(answer(12, {"orders": batch(b"drop", base=10)}))
    head, frame = fetch(12, {"orders": 10})
    passed_over = await decided(fetches, head, frame)
    out_of_range = answer(12, {"orders": b""}, code=1)
    assert partition_of(read(head, await change_of(passed_over).changed(out_of_range)))["error_code"] == 6
    again = await decided(fetches, head, frame)
    assert upstream(head, again)["topics"][0]["partitions"][0]["fetch_offset"] == 10
    assert await change_of(again).changed(out_of_range) == [out_of_range]


@anyhow
async def test_a_failure_holds_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    now = [100.0]
    fetches = requests(clock=lambda: now[0])
    head, frame = fetch(12, {"orders": 10}, wait=500)
    decision = await decided(fetches, head, frame)
    now[0] += 0.2
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "sleep", sleep)
        tree = read(head, await change_of(decision).changed(answer(12, {"orders": batch(b"a", b"bug", base=10)})))
    partition = partition_of(tree)
    assert (partition["error_code"], partition["records"], partition["high_watermark"]) == (56, b"", -1)
    assert slept[-1] == pytest.approx(0.3)
    again = await decided(fetches, *fetch(12, {"orders": 10}))
    assert upstream(head, again)["topics"][0]["partitions"][0]["fetch_offset"] == 10


@anyhow
@pytest.mark.parametrize(("on_failure", "kept"), [(OnFailure.PASS, [10, 11]), (OnFailure.DROP, [10])])
async def test_what_fails_may_go_on_or_be_left_out(on_failure: OnFailure, kept: list[int]) -> None:
    decision = await decided(requests(on_failure=on_failure), *fetch(12, {"orders": 10}))
    head, _ = fetch(12, {"orders": 10})
    tree = read(head, await change_of(decision).changed(answer(12, {"orders": batch(b"a", b"bug", base=10)})))
    assert [offset for offset, _ in values(partition_of(tree)["records"])] == kept


@anyhow
@pytest.mark.parametrize(("at", "code"), [(-1, 2), (16, 43)])
async def test_records_that_cannot_be_read_do_not_go_on(at: int, code: int) -> None:
    records = bytearray(batch(b"good"))
    records[at] = records[at] ^ 1 if at < 0 else 1
    head, frame = fetch(12, {"orders": 0})
    decision = await decided(requests(), head, frame)
    tree = read(head, await change_of(decision).changed(answer(12, {"orders": bytes(records)})))
    assert (partition_of(tree)["error_code"], partition_of(tree)["records"]) == (code, b"")


@anyhow
async def test_records_of_an_unknown_id_do_not_go_on() -> None:
    cluster = Cluster()
    fetches = requests(cluster=cluster)
    tree = {"topics": [{"topic_id": NOBODY, "partitions": [{"partition": 0}]}]}
    head, frame = framed(ApiKey.FETCH, 17, {"session_epoch": -1, **tree})
    assert fetches.decide(head, frame) is None
    decision = await fetches.decide_later(head, frame)
    partition = {"partition_index": 0, "records": batch(b"a")}
    said = answered(ApiKey.FETCH, 17, {"responses": [{"topic_id": NOBODY, "partitions": [partition]}]})
    assert partition_of(read(head, await change_of(decision).changed(said)))["error_code"] == 100
    cluster.names[NOBODY] = "orders"
    assert await change_of(decision).changed(said) == [said], "it is known by now, and nothing is to be changed"


@pytest.mark.parametrize("version", VERSIONS)
@anyhow
async def test_records_beside_an_error_do_not_pass(version: int) -> None:
    fetches = requests()
    head, frame = fetch(version, {"orders": 5})
    decision = await decided(fetches, head, frame)
    changed = await change_of(decision).changed(answer(version, {"orders": batch(b"change")}, code=6))
    partition = partition_of(read(head, changed))
    assert (partition["error_code"], partition["records"]) == (6, b"")


@anyhow
@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("version", [4, 11, 12, 18])
async def test_nothing_masked_is_in_the_bytes(codec: int, version: int) -> None:
    def card(number: int) -> bytes:
        return json.dumps({"id": number, "card": f"SECRET-{number}"}).encode()

    def packed(data: bytes, attributes: int = 0) -> bytes:
        whole = bytearray(data[:61]) + compress(codec, data[61:])
        Struct(">i").pack_into(whole, 8, len(whole) - 12)
        Struct(">h").pack_into(whole, 21, codec | attributes)
        Struct(">q").pack_into(whole, 43, 7)
        seal(whole)
        return bytes(whole)

    records = packed(batch(card(0), card(1))) + packed(batch(card(2), base=2), 0x10) + packed(batch(card(3), base=3))
    aborted = [{"producer_id": 7, "first_offset": 2}]
    fetches = requests(Mask(MaskConfig(paths=("card",))))
    for end in (len(records), len(records) - 1):
        head, frame = fetch(version, {"orders": 0})
        decision = await decided(fetches, head, frame)
        said = answer(version, {"orders": records[:end]}, aborted_transactions=aborted)
        changed = await change_of(decision).changed(said)
        assert not isinstance(changed, FollowUp)
        whole = b"".join(changed)
        assert b"SECRET" not in whole
        found = partition_of(read(head, [whole]))["records"]
        assert sum(map(len, whole_batches(memoryview(found)))) == len(found)
        for each in whole_batches(memoryview(found)):
            assert b"SECRET" not in decompress(codec, bytes(each[61:]))
            assert b"****" in decompress(codec, bytes(each[61:]))


@pytest.mark.parametrize("version", VERSIONS)
@anyhow
async def test_bytes_that_nobody_has_looked_at_do_not_pass(version: int) -> None:
    fetches = requests()
    for names in ({"others": 5}, {"orders": 5}):
        plain = await decided(fetches, *fetch(version, names))
        longer = await decided(fetches, *with_tail(*fetch(version, names)))
        assert plain.frame is not None and longer.frame is not None
        assert b"".join(longer.frame) == b"".join(plain.frame)


@pytest.mark.parametrize("version", VERSIONS)
@anyhow
async def test_an_answer_with_a_topic_that_was_not_asked_for_does_not_pass(version: int) -> None:
    fetches = requests()
    decision = await decided(fetches, *fetch(version, {"orders": 5}))
    assert decision.change is not None
    await decision.change.changed(answer(version, {"orders": batch(b"x")}))
    for wrong in ({"orders": batch(b"x"), "others": batch(b"y")}, {"others": b""}):
        with pytest.raises(ProtocolError, match="which was not asked for"):
            await decision.change.changed(answer(version, wrong))
    with pytest.raises(ProtocolError, match="which was not asked for"):
        await decision.change.changed(answer(version, {"orders": b""}, partition_index=1))


@pytest.mark.parametrize("version", VERSIONS)
@anyhow
async def test_a_topic_that_an_interceptor_wants_to_see_passes_in_no_other_answer(version: int) -> None:
    """Also not in one whose topics, as asked for, no interceptor wants to see. Nor does one whose name is unknown."""
    wrong = [{"orders": batch(b"x")}, {"others": batch(b"y"), "orders": b""}]
    if version >= FIRST_BY_ID:
        wrong.append({"nobody": batch(b"x")})
    requests_of_one = [(-1, 0)] if version < FIRST_WITH_SESSIONS else [(-1, 0), (0, 0), (1, 5)]
    for topics in ({"others": batch(b"x")}, {}, *wrong):
        fetches = requests()
        for epoch, session in requests_of_one:
            decision = await decided(fetches, *fetch(version, {"others": 7}, epoch, session=session))
            said = answer(version, topics, session=5)
            with pytest.raises(ProtocolError, match="which was not asked for") if topics in wrong else nullcontext():
                if decision.change is not None:
                    await decision.change.changed(said)
                else:
                    assert decision.check is not None
                    decision.check.feed(said)
            if decision.change is not None and topics in wrong:
                break  # the connection has ended
