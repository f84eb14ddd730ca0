"""Frames between a client and the carrier of its requests: none is lost, and none overtakes another, however long some
are held up.

They pass with the correlation ids 1, 2, 3, ... of the mesh. Most clients here choose the same ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ProtocolError
from mesh.wire.fetched_topics import FetchedTopics
from mesh.wire.interception import Decision, FollowUp, InterceptedFrames
from mesh.wire.messages import Buffer
from mesh.wire.passing import REQUEST_HEAD, RequestHead

LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Named:
    """A changed answer; the test looks at it."""

    name: str = ""

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        raise AssertionError("the frames ask nobody themselves")


def request(correlation_id: int, api_key: ApiKey = ApiKey.FETCH, version: int = 9, body: bytes = b"") -> bytes:
    return REQUEST_HEAD.pack(8 + len(body), api_key, version, correlation_id) + body


def produce(correlation_id: int, acks: int) -> bytes:
    """v3: no client id, no transactional id."""
    return request(
        correlation_id, ApiKey.PRODUCE, 3, b"\xff\xff\xff\xff" + acks.to_bytes(2, "big", signed=True) + b"rest"
    )


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    return (4 + len(body)).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + body


def frames_of(taken: frozenset[int] = frozenset(), limit: int = LIMIT) -> InterceptedFrames:
    return InterceptedFrames(lambda head: head.correlation_id in taken, lambda: limit)


def chunks(data: bytes, cuts: Sequence[int]) -> Iterator[memoryview]:
    places = sorted({0, len(data), *(each % (len(data) + 1) for each in cuts)})
    for start, end in itertools.pairwise(places):
        yield memoryview(bytearray(data[start:end]))


def with_id(correlation_id: int, frame: bytes) -> bytes:
    """A request with another correlation id."""
    return frame[:8] + correlation_id.to_bytes(4, "big") + frame[12:]


def taken_out(buffers: list[Buffer]) -> bytes:
    data = b"".join(buffers)
    buffers.clear()
    return data


@given(st.lists(st.integers(0, 400), max_size=30), st.lists(st.integers(0, 400), max_size=30))
def test_what_nobody_takes_passes_as_it_comes(cuts: list[int], more: list[int]) -> None:
    frames = frames_of()
    data = b"".join([request(1, body=b"x" * 20), produce(2, 0), produce(3, 1), request(4, ApiKey.METADATA)])
    for chunk in chunks(data, cuts):
        frames.receive_requests(chunk)
    assert taken_out(frames.passed) == data
    answers = answer(1, b"y" * 50) + answer(3) + answer(4)
    for chunk in chunks(answers, more):
        frames.receive_answers([chunk])
    assert taken_out(frames.sent) == answers
    assert not frames.has_waiting_requests and not frames.is_holding


@given(st.lists(st.integers(0, 400), max_size=30), st.lists(st.integers(0, 400), max_size=30))
def test_a_request_that_is_taken_holds_up_what_follows(cuts: list[int], more: list[int]) -> None:
    change = Named()
    frames = frames_of(frozenset({2}))
    first, second, third = request(1), request(2, body=b"x" * 30), request(3)
    for chunk in chunks(first + second + third, cuts):
        frames.receive_requests(chunk)
    assert taken_out(frames.passed) == first
    assert frames.pending_request is not None
    head, whole = frames.pending_request
    assert head == RequestHead(38, ApiKey.FETCH, 9, 2) and whole == second
    frames.decide(Decision([b"another ", b"frame"], change=change))
    frames.go_on()
    assert taken_out(frames.passed) == b"another frame" + third
    for chunk in chunks(answer(1) + answer(2, b"z" * 9) + answer(3), more):
        frames.receive_answers([chunk])
    assert taken_out(frames.sent) == answer(1)
    assert frames.pending_answer == (change, memoryview(answer(2, b"z" * 9)))
    frames.answer_changed([b"changed"])
    assert taken_out(frames.sent) == b"changed" + answer(3)


def test_an_answer_made_here_waits_for_those_before_it() -> None:
    frames = frames_of(frozenset({2, 4}))
    frames.receive_requests(memoryview(request(1) + request(2) + request(3) + request(4)))
    frames.decide(Decision(None, [b"here"]))
    frames.go_on()
    assert taken_out(frames.passed) == request(1) + request(3)
    assert not frames.sent
    frames.decide(Decision(None, [b"too"]))
    frames.receive_answers([answer(1, b"abc")[:9]])
    assert taken_out(frames.sent) == answer(1, b"abc")[:9]
    frames.receive_answers([answer(1, b"abc")[9:]])
    assert taken_out(frames.sent) == answer(1, b"abc")[9:] + b"here"
    frames.receive_answers([answer(3)])
    assert taken_out(frames.sent) == answer(3) + b"too"


def test_an_answer_made_here_waits_for_one_that_is_looked_at() -> None:
    frames = frames_of(frozenset({1, 2}))
    frames.receive_requests(memoryview(request(1) + request(2)))
    frames.decide(Decision([b"one"], change=Named()))
    frames.go_on()
    frames.receive_answers([answer(1)])
    frames.decide(Decision(None, [b"here"]))
    assert not frames.sent
    frames.answer_changed([b"seen "])
    assert taken_out(frames.sent) == b"seen here"


def test_nothing_is_expected_for_what_has_no_answer() -> None:
    frames = frames_of(frozenset({1, 2}))
    frames.receive_requests(memoryview(produce(1, 0) + produce(2, 0) + request(3)))
    frames.decide(Decision([b"sent"], is_answered=False))
    frames.go_on()
    frames.decide(Decision(None, is_answered=False))
    frames.go_on()
    assert taken_out(frames.passed) == b"sent" + request(3)
    frames.receive_answers([answer(3)])
    assert taken_out(frames.sent) == answer(3)


def test_answers_that_nobody_expects() -> None:
    for expected in (b"", request(1)):
        frames = frames_of()
        frames.receive_requests(memoryview(expected))
        with pytest.raises(ProtocolError, match="response 2 is not expected"):
            frames.receive_answers([answer(2)])


def test_an_answer_that_is_too_large_to_be_kept() -> None:
    frames = frames_of(frozenset({1}))
    frames.receive_requests(memoryview(request(1)))
    frames.decide(Decision([b"one"], change=Named()))
    with pytest.raises(ProtocolError, match="that an interceptor wants to see"):
        frames.receive_answers([(200 << 20).to_bytes(4, "big") + b"\0\0\0\1"])


def test_a_request_that_is_too_large_ends_the_stream() -> None:
    frames = frames_of(limit=100)
    frames.receive_requests(memoryview(request(1) + request(2, body=b"x" * 101)))
    assert taken_out(frames.passed) == request(1)
    assert frames.problem is not None and frames.problem.reason == "frame_size"


def test_a_request_that_is_alone_holds_up_what_follows_until_its_client_has_the_answer() -> None:
    frames = frames_of(taken=frozenset({2}))
    frames.receive_requests(memoryview(request(1) + request(2) + request(3)))
    frames.decide(Decision([b"instead"], change=Named(), is_alone=True))
    frames.go_on()
    assert taken_out(frames.passed) == request(1) + b"instead"
    assert frames.has_waiting_requests
    frames.receive_answers([answer(1), answer(2)])
    assert (taken_out(frames.sent), frames.pending_answer is not None) == (answer(1), True)
    frames.answer_changed([answer(2, b"changed")])
    assert (taken_out(frames.sent), taken_out(frames.passed)) == (answer(2, b"changed"), request(3))
    frames.receive_answers([answer(3)])
    assert taken_out(frames.sent) == answer(3)


def test_a_follow_up_comes_in_the_place_of_the_request_before_it() -> None:
    frames = frames_of(taken=frozenset({1}))
    frames.receive_requests(memoryview(request(1) + request(2)))
    frames.decide(Decision([b"first"], change=Named("first"), is_alone=True))
    frames.receive_answers([answer(1, b"of the first")])
    frames.answer_changed(FollowUp([b"second"], Named("second")))
    assert (taken_out(frames.passed), taken_out(frames.sent)) == (b"firstsecond", b"")
    frames.receive_answers([answer(1, b"of the second")])
    assert frames.pending_answer is not None
    assert frames.pending_answer[0] == Named("second")
    frames.answer_changed([answer(1, b"of both")])
    assert (taken_out(frames.sent), taken_out(frames.passed)) == (answer(1, b"of both"), request(2))


def test_what_is_seen_of_others_does_not_end_it() -> None:
    frames = frames_of(taken=frozenset({1, 2}))
    frames.receive_requests(memoryview(request(1) + request(2) + request(3)))
    frames.decide(Decision([b"one"], change=Named()))
    frames.go_on()
    frames.decide(Decision([b"alone"], change=Named(), is_alone=True))
    frames.receive_answers([answer(1)])
    frames.answer_changed([answer(1)])
    assert taken_out(frames.passed) == b"onealone"
    frames.receive_answers([answer(2)])
    frames.answer_changed([answer(2)])
    assert taken_out(frames.passed) == request(3)


HANDSHAKE = request(1, ApiKey.SASL_HANDSHAKE, 1, b"\0\5PLAIN")
TOKEN = request(2, ApiKey.SASL_AUTHENTICATE, 1, b"\0\0\0\5token")


class Client:
    """A client that is authenticated, or about which only the broker knows. asked: the requests about which the frames
    have asked, and what was known of the client then."""

    def __init__(self, taken: int, known: bool | None) -> None:
        self.taken = taken
        self.known = known
        self.asked: list[tuple[int, bool | None]] = []

    def is_taken(self, head: RequestHead) -> bool | None:
        self.asked.append((head.correlation_id, self.known))
        return self.known if head.correlation_id == self.taken else False


@given(st.lists(st.integers(0, 400), max_size=30), st.lists(st.integers(0, 400), max_size=30))
def test_a_client_that_does_not_wait_for_its_authentication(cuts: list[int], more: list[int]) -> None:
    client = Client(taken=3, known=False)
    frames = InterceptedFrames(client.is_taken, lambda: LIMIT)
    for chunk in chunks(HANDSHAKE + TOKEN + request(3, body=b"x" * 30) + request(4), cuts):
        frames.receive_requests(chunk)
    assert taken_out(frames.passed) == HANDSHAKE
    assert frames.has_waiting_requests
    for chunk in chunks(answer(1, b"handshake"), more):
        frames.receive_answers([chunk])
    assert taken_out(frames.passed) == TOKEN
    assert (client.asked, frames.has_waiting_requests) == ([(1, False), (2, False)], True)
    client.known = True
    frames.receive_answers([answer(2, b"token")])
    assert frames.pending_request is not None and frames.pending_request[0].correlation_id == 3
    assert taken_out(frames.sent) == answer(1, b"handshake") + answer(2, b"token")
    frames.decide(Decision([b"examined"]))
    frames.go_on()
    assert taken_out(frames.passed) == b"examined" + request(4)
    assert not frames.has_waiting_requests


def test_nothing_is_read_while_a_client_authenticates() -> None:
    frames = frames_of()
    frames.receive_requests(memoryview(HANDSHAKE))
    assert frames.has_waiting_requests
    frames.receive_answers([answer(1)])
    assert not frames.has_waiting_requests


def test_the_answers_to_an_authentication_come_in_their_order() -> None:
    frames = frames_of(taken=frozenset({3}))
    frames.receive_requests(memoryview(request(3) + HANDSHAKE + TOKEN))
    frames.decide(Decision([b"fetch"], change=Named()))
    frames.go_on()
    frames.receive_answers([answer(1), answer(2)])
    assert taken_out(frames.passed) == b"fetch" + with_id(2, HANDSHAKE)
    frames.answer_changed([answer(3, b"changed")])
    assert taken_out(frames.sent) == answer(3, b"changed") + answer(1)
    assert taken_out(frames.passed) == with_id(3, TOKEN)


@given(st.lists(st.integers(0, 400), max_size=30), st.lists(st.integers(0, 400), max_size=30))
def test_the_broker_is_asked_if_only_it_knows_the_client(cuts: list[int], more: list[int]) -> None:
    client = Client(taken=7, known=None)
    frames = InterceptedFrames(client.is_taken, lambda: LIMIT)
    for chunk in chunks(request(6) + request(7, body=b"x" * 30) + request(8), cuts):
        frames.receive_requests(chunk)
    probe = request(2, ApiKey.METADATA, 4, b"\xff\xff" + b"\0\0\0\0" + b"\0")
    assert taken_out(frames.passed) == request(1) + probe
    assert frames.has_waiting_requests
    client.known = True
    for chunk in chunks(answer(1) + answer(2, b"brokers"), more):
        frames.receive_answers([chunk])
    assert taken_out(frames.sent) == answer(6), "the client has not asked for the brokers"
    assert frames.pending_request is not None
    frames.decide(Decision([b"examined"]))
    frames.go_on()
    assert taken_out(frames.passed) == b"examined" + request(4)
    frames.receive_answers([answer(3) + answer(4)])
    assert taken_out(frames.sent) == answer(7) + answer(8)
    assert client.asked == [(6, None), (7, None), (7, True), (8, True)]


SAME = 7
"""The correlation id of all requests of a client that does not count."""


def frames_of_a_client_that_does_not_count() -> InterceptedFrames:
    """A Metadata, a Fetch that is examined, and a Heartbeat have passed, with the same correlation id."""
    frames = InterceptedFrames(lambda head: head.api_key == ApiKey.FETCH, lambda: LIMIT)
    others = [request(SAME, each) for each in (ApiKey.METADATA, ApiKey.HEARTBEAT)]
    frames.receive_requests(memoryview(others[0] + request(SAME) + others[1]))
    assert frames.pending_request is not None
    head, frame = frames.pending_request
    assert head.correlation_id == SAME and frame == request(2), "its answers are made with the id of the client"
    frames.decide(Decision([frame], change=Named()))
    frames.go_on()
    assert taken_out(frames.passed) == with_id(1, others[0]) + request(2) + with_id(3, others[1])
    return frames


def test_a_client_gets_its_own_correlation_ids() -> None:
    for is_constant in (True, False):
        frames = frames_of_a_client_that_does_not_count()
        answers = b"".join(answer(each, b"body") for each in (1, 2, 3))
        frames.receive_answers([answers if is_constant else bytearray(answers)])
        assert frames.pending_answer == (Named(), memoryview(answer(SAME, b"body")))
        frames.answer_changed([answer(SAME, b"masked")])
        assert taken_out(frames.sent) == answer(SAME, b"body") + answer(SAME, b"masked") + answer(SAME, b"body")


@pytest.mark.parametrize(
    "answered",
    [
        pytest.param([2], id="too early"),
        pytest.param([1, 1], id="twice"),
        pytest.param([1, 3], id="one left out"),
        pytest.param([1, SAME], id="with the id of the client"),
        pytest.param([SAME], id="without a request"),
    ],
)
def test_answers_in_the_place_of_others_pass_nothing(answered: list[int]) -> None:
    frames = frames_of_a_client_that_does_not_count()
    with pytest.raises(ProtocolError, match=f"response {answered[-1]} is not expected"):
        for correlation_id in answered:
            frames.receive_answers([answer(correlation_id, b"records" if correlation_id == 2 else b"")])
    assert b"records" not in taken_out(frames.sent) and frames.pending_answer is None


def test_correlation_ids_begin_again_after_the_largest() -> None:
    frames = frames_of()
    frames._last_id = (1 << 31) - 2
    frames.receive_requests(memoryview(request(SAME) * 2))
    assert taken_out(frames.passed) == request((1 << 31) - 1) + request(1)


@given(st.lists(st.integers(0, 400), max_size=30))
def test_an_answer_that_stays_is_checked_before_it_passes(cuts: list[int]) -> None:
    partition = (0).to_bytes(4, "big") + bytes(26) + b"\0\0\0\0" + b"\0\0\0\7records"
    body = bytes(10) + b"\0\0\0\1" + b"\0\6orders" + b"\0\0\0\1" + partition  # of Fetch v9
    for topic in ("orders", "others"):
        frames = frames_of(frozenset({1}))
        frames.receive_requests(memoryview(request(1)))
        frames.decide(Decision([b"fetch"], check=FetchedTopics(ApiKey.FETCH, 9, {topic}.__contains__)))
        with nullcontext() if topic == "orders" else pytest.raises(ProtocolError, match="which was not asked for"):
            for chunk in chunks(answer(1, body), cuts):
                frames.receive_answers([chunk])
        assert (taken_out(frames.sent) == answer(1, body)) is (topic == "orders")
        assert frames.pending_answer is None
