"""Requests on their way to a broker, and answers on their way back: whole, byte by byte, at any cuts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from struct import Struct, pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.relaying import LARGEST_LOCAL, MOST_IN_FLIGHT, RelayedConnection, RelayedRequest

SERVED = {key: (each.lowest, each.highest) for key, each in RELAYED_APIS.items()}
AUTHENTICATION = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
LIMIT = 1 << 20
_LENGTH = Struct(">i")


class Elsewhere:
    """All nodes are reached at `mesh`, each at its own port, except node 7."""

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        return ("mesh", 9000 + node) if node != 7 else None


class Bench:
    """A connection, and all its output."""

    def __init__(self, guard: object = None) -> None:
        self.answered: list[RelayedRequest] = []
        self.wire = RelayedConnection(SERVED, SERVED, AUTHENTICATION, Elsewhere(), self.answered.append, LIMIT, guard)  # type: ignore[arg-type]
        self.upstream = b""
        self.downstream = b""

    def ask(self, *frames: bytes) -> None:
        for frame in frames:
            self.upstream += joined(self.wire.receive_requests(memoryview(bytearray(frame)), 1.0))

    def reply(self, *frames: bytes) -> None:
        for frame in frames:
            self.downstream += joined(self.wire.receive_answers(memoryview(bytearray(frame))))


def joined(buffers: Sequence[Buffer]) -> bytes:
    return b"".join(map(bytes, buffers))


def framed(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + body


def request(key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    return framed(pack(">hhih", key, version, correlation_id, 4) + b"test" + body)


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    return framed(pack(">i", correlation_id) + body)


def produce(correlation_id: int, acks: int, records: bytes = b"records") -> bytes:
    return request(ApiKey.PRODUCE, 3, correlation_id, pack(">hh", -1, acks) + records)


def flexible_produce(correlation_id: int, acks: int, transactional_id: bytes) -> bytes:
    text = bytes([len(transactional_id) + 1]) + transactional_id
    return request(ApiKey.PRODUCE, 9, correlation_id, b"\x01\x05\x02zz" + text + pack(">h", acks) + b"records")


def test_requests_and_answers_pass_as_they_are() -> None:
    bench = Bench()
    asked = [request(ApiKey.HEARTBEAT, 4, 1, b"a"), request(ApiKey.LIST_OFFSETS, 1, 2, b"b"), produce(3, 1)]
    bench.ask(b"".join(asked))
    assert bench.upstream == b"".join(asked)
    assert bench.wire.in_flight == 3
    answers = [answer(1, b"x"), answer(2, b"yy"), answer(3, b"zzz")]
    bench.reply(b"".join(answers))
    assert bench.downstream == b"".join(answers)
    assert [each.api_key for each in bench.answered] == [ApiKey.HEARTBEAT, ApiKey.LIST_OFFSETS, ApiKey.PRODUCE]
    assert [(each.size, each.answer_size) for each in bench.answered] == [
        (len(sent) - 4, len(back) - 4) for sent, back in zip(asked, answers, strict=True)
    ]


@pytest.mark.parametrize("make", [produce, lambda id, acks: flexible_produce(id, acks, b"transaction")])
def test_produce_without_acknowledgement_has_no_answer(make: object) -> None:
    for cuts in (False, True):
        bench = Bench()
        stream = b"".join(make(id, acks) for id, acks in [(1, 0), (2, -1), (3, 0), (4, 1)])  # type: ignore[operator]
        bench.ask(*([stream[at : at + 1] for at in range(len(stream))] if cuts else [stream]))
        assert bench.upstream == stream
        assert bench.wire.in_flight == 2
        bench.reply(answer(2), answer(4))
        assert bench.downstream == answer(2) + answer(4)


def test_a_produce_request_that_ends_before_its_acks_is_refused() -> None:
    for frame in (
        request(ApiKey.PRODUCE, 3, 1, pack(">h", 50) + b"short"),
        request(ApiKey.PRODUCE, 9, 1, b"\xff\xff\xff\xff\xff\xff"),
    ):
        bench = Bench()
        bench.ask(frame)
        assert bench.wire.problem is not None
        assert bench.upstream == b""


@given(st.data())
def test_any_cuts_give_the_same(data: st.DataObject) -> None:
    requests = [request(ApiKey.HEARTBEAT, 3, id, bytes(id * 7)) for id in range(5)] + [produce(9, 0), produce(10, -1)]
    answers = [answer(id, bytes(id * 11)) for id in [0, 1, 2, 3, 4, 10]]
    bench = Bench()
    for stream, feed in ((b"".join(requests), bench.ask), (b"".join(answers), bench.reply)):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
        feed(*[stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)])
    assert bench.upstream == b"".join(requests)
    assert bench.downstream == b"".join(answers)
    assert not bench.wire.in_flight


def test_what_is_answered_here_holds_up_what_comes_behind_it() -> None:
    bench = Bench()
    before, local, behind = request(11, 4, 1), request(ApiKey.SASL_HANDSHAKE, 1, 2, b"x"), request(12, 3, 3)
    bench.ask(before + local + behind)
    assert bench.upstream == before
    assert bench.wire.local == [local]
    assert bench.wire.is_blocked
    bench.wire.local.clear()
    assert bench.wire.answer([b"here"]) == [], "the answer before it is missing"
    bench.upstream += joined(bench.wire.pass_on(2.0))
    assert bench.upstream == before + behind
    bench.reply(answer(1), answer(3))
    assert bench.downstream == answer(1) + b"here" + answer(3)


def test_the_middle_of_a_request_does_not_overtake_its_beginning() -> None:
    bench = Bench()
    local, behind = request(ApiKey.SASL_HANDSHAKE, 1, 1, b"x"), produce(2, 1, bytes(range(200)) * 10)
    bench.ask(local + behind[:500], behind[500:1_000], behind[1_000:1_500])
    assert bench.upstream == b""
    bench.wire.local.clear()
    bench.wire.answer([answer(1)])
    bench.upstream += joined(bench.wire.pass_on(1.0))
    bench.ask(behind[1_500:])
    assert bench.upstream == behind


def test_a_local_request_is_bounded() -> None:
    bench = Bench()
    bench.ask(request(ApiKey.SASL_AUTHENTICATE, 1, 1, bytes(LARGEST_LOCAL)))
    assert bench.wire.problem is not None
    assert bench.wire.problem.reason == "frame_size"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (request(86, 0, 1), "unknown_api"),
        (request(999, 0, 1), "unknown_api"),
        (request(ApiKey.HEARTBEAT, 99, 1), "unsupported_version"),
        (_LENGTH.pack(LIMIT + 1), "frame_size"),
        (_LENGTH.pack(-1), "frame_size"),
        (_LENGTH.pack(3), "frame_size"),
    ],
)
def test_requests_that_end_the_connection(frame: bytes, reason: str) -> None:
    for before in (b"", request(ApiKey.HEARTBEAT, 3, 1)):
        bench = Bench()
        bench.ask(before + frame)
        assert bench.wire.problem is not None
        assert bench.wire.problem.reason == reason
        assert bench.upstream == before, "what came before it is answered first"
        assert bench.wire.in_flight == bool(before)


def test_a_version_of_api_versions_that_nobody_knows_passes() -> None:
    bench = Bench()
    bench.ask(request(ApiKey.API_VERSIONS, 99, 1))
    assert bench.upstream == request(ApiKey.API_VERSIONS, 99, 1)


def test_versions_that_are_not_served_are_left_out() -> None:
    bench = Bench()
    bench.ask(request(ApiKey.API_VERSIONS, 0, 5))
    listed = [(3, 0, 13), (86, 0, 0), (1, 0, 99), (12, 0, 4)]
    bench.reply(answer(5, pack(">hi", 0, len(listed)) + b"".join(pack(">hhh", *each) for each in listed)))
    kept = [(3, 0, 13), (1, 4, 18), (12, 0, 4)]
    assert bench.downstream == answer(5, pack(">hi", 0, len(kept)) + b"".join(pack(">hhh", *each) for each in kept))


def metadata_v0(port: int, host: bytes) -> bytes:
    brokers = pack(">i", 2) + b"".join(pack(">ih", id, len(host)) + host + pack(">i", port) for id in (1, 7))
    return answer(5, brokers + b"topics")


@pytest.mark.parametrize("cut", [0, 3, 6, 20, 35])
def test_addresses_are_replaced_however_the_answer_comes(cut: int) -> None:
    bench = Bench()
    bench.ask(request(ApiKey.METADATA, 0, 5))
    whole = metadata_v0(1234, b"broker.example.com")
    bench.reply(whole[:cut], whole[cut:])
    assert bench.downstream == answer(5, pack(">iih", 1, 1, 4) + b"mesh" + pack(">i", 9001) + b"topics")


@pytest.mark.parametrize(
    "frames",
    [
        [answer(1)],
        [request(ApiKey.HEARTBEAT, 3, 1), answer(2)],
        [request(ApiKey.HEARTBEAT, 3, 1), _LENGTH.pack(-1)],
        [request(ApiKey.HEARTBEAT, 3, 1), answer(1), answer(1)],
        [request(ApiKey.METADATA, 0, 1), answer(1, b"\x7f\xff\xff\xff")],
        [request(ApiKey.SASL_HANDSHAKE, 0, 1), answer(1)],
    ],
)
def test_answers_that_nobody_can_have_meant(frames: list[bytes]) -> None:
    bench = Bench()
    asked = [frame for frame in frames if len(frame) > 10 and frame[4:6] != b"\0\0"]
    bench.ask(*asked)
    with pytest.raises(ProtocolError):
        bench.reply(*[frame for frame in frames if frame not in asked])


def test_a_guard_says_which_client_may_ask() -> None:
    def nobody(api_key: int) -> None:
        raise ProtocolError("unauthenticated", str(api_key))

    bench = Bench(nobody)
    bench.ask(request(ApiKey.SASL_HANDSHAKE, 1, 1))
    assert bench.wire.local
    bench = Bench(nobody)
    bench.ask(request(ApiKey.METADATA, 0, 1))
    assert bench.wire.problem is not None


@given(st.lists(st.binary(max_size=60), max_size=6), st.booleans())
def test_no_bytes_break_it(chunks: list[bytes], are_answers: bool) -> None:
    bench = Bench()
    bench.ask(request(ApiKey.METADATA, 9, 1), request(ApiKey.FETCH, 17, 2))
    with suppress(ProtocolError):
        (bench.reply if are_answers else bench.ask)(*chunks)


def test_tagged_fields_without_end_are_not_gone_through() -> None:
    bench = Bench()
    bench.ask(request(ApiKey.PRODUCE, 9, 1, b"\xff\xff\x03" + bytes(100)))
    assert bench.wire.problem is not None
    assert bench.wire.problem.reason == "too_many_elements"


def test_one_chunk_passes_no_more_than_may_be_in_flight() -> None:
    bench = Bench()
    frames = [request(ApiKey.HEARTBEAT, 3, id) for id in range(3 * MOST_IN_FLIGHT)]
    bench.ask(b"".join(frames))
    assert bench.wire.in_flight == MOST_IN_FLIGHT + 1
    assert bench.wire.is_blocked
    for id in range(3 * MOST_IN_FLIGHT):
        bench.reply(answer(id))
        bench.upstream += joined(bench.wire.pass_on(2.0))
    assert bench.upstream == b"".join(frames)
    assert not bench.wire.is_blocked


def test_a_request_without_an_answer_is_told_too() -> None:
    bench = Bench()
    bench.ask(produce(1, 0))
    (told,) = bench.answered
    assert (told.api_key, told.answer_size) == (ApiKey.PRODUCE, None)
