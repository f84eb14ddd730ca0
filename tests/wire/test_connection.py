"""One connection: requests in every version, whole, byte by byte and with a tail; and the order of answers."""

from __future__ import annotations

import gc
import weakref
from itertools import permutations
from struct import pack
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema

from mesh.wire.apis import APIS, KNOWN_APIS, ApiKey, is_flexible
from mesh.wire.connection import FramedRequest, ServerConnection
from mesh.wire.decoder import decode_request
from mesh.wire.encoder import encode_response
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.messages import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from mesh.wire.reader import Cursor
from tests.wire.each_version import each_version
from tests.wire.entities import ALL_VERSIONS, CLIENT_ID, decode, encode, frame, sample, sample_request

SERVED = {api_key: (versions.lowest, versions.highest) for api_key, versions in APIS.items()}
KNOWN = {api_key: (versions.lowest, versions.highest) for api_key, versions in KNOWN_APIS.items()}

HEARTBEAT_V0 = b"\0\x0c\0\0\0\0\0\x07\0\x03abc" + b"\0\x01g" + b"\0\0\0\x05" + b"\0\x01m"


def header(api_key: ApiKey, version: int) -> bytes:
    """A request header with the correlation id 7."""
    tagged = b"\1\5\2ab" if is_flexible(api_key, version) else b""
    name = CLIENT_ID.encode()
    return pack(">hhih", api_key, version, 7, len(name)) + name + tagged


def heartbeat(correlation_id: int) -> bytes:
    return frame(sample_request(ApiKey.HEARTBEAT, 0, correlation_id))


def sent(connection: ServerConnection) -> bytes:
    return b"".join(connection.data_to_send())


def answered(correlation_id: int) -> bytes:
    """A HeartbeatResponse v0 without an error."""
    return pack(">iih", 6, correlation_id, 0)


def assert_sample(request: FramedRequest, api_key: ApiKey, version: int, correlation_id: int) -> None:
    assert (request.api_key, request.api_version) == (api_key, version)
    assert (request.correlation_id, request.client_id) == (correlation_id, CLIENT_ID)
    body = encode(sample(load_request_schema(api_key, version)))
    assert request.decode() == decode_request(api_key, version, Cursor(body))


@each_version(ALL_VERSIONS)
def test_whole_and_several_at_once(api_key: ApiKey, version: int) -> None:
    stream = frame(sample_request(api_key, version, 1)) + frame(sample_request(api_key, version, 2))
    first, second = ServerConnection(SERVED).receive_data(stream)
    assert_sample(first, api_key, version, 1)
    assert_sample(second, api_key, version, 2)


@each_version(ALL_VERSIONS)
def test_byte_by_byte(api_key: ApiKey, version: int) -> None:
    for tail in (b"", b"\0\0\0"):
        connection = ServerConnection(SERVED)
        stream = frame(sample_request(api_key, version) + tail)
        for place in range(len(stream) - 1):
            assert connection.receive_data(stream[place : place + 1]) == []
        (request,) = connection.receive_data(stream[-1:])
        assert_sample(request, api_key, version, 7)


@each_version(ALL_VERSIONS)
def test_a_tail_in_the_frame_changes_neither_its_request_nor_the_next(api_key: ApiKey, version: int) -> None:
    stream = frame(sample_request(api_key, version, 1) + b"tail") + frame(sample_request(api_key, version, 2))
    first, second = ServerConnection(SERVED).receive_data(stream)
    assert_sample(first, api_key, version, 1)
    assert_sample(second, api_key, version, 2)


@pytest.mark.parametrize("api_key", KNOWN_APIS)
def test_the_body_of_every_known_api_is_handed_out_undecoded(api_key: ApiKey) -> None:
    connection = ServerConnection(KNOWN)
    for version in KNOWN_APIS[api_key].all():
        start = header(api_key, version)
        for body in (b"", b"body", b"body" + b"tail"):
            whole, *others = connection.receive_data(frame(start + body) * 2)
            others += [each for byte in frame(start + body) for each in connection.receive_data(bytes([byte]))]
            for request in (whole, *others):
                assert (request.api_key, request.api_version) == (api_key, version)
                assert (request.correlation_id, request.client_id) == (7, CLIENT_ID)
                assert (bytes(request.body), request.frame) == (body, start + body)


def test_a_body_is_no_copy() -> None:
    (request,) = ServerConnection(SERVED).receive_data(frame(HEARTBEAT_V0 + b"tail"))
    assert bytes(request.body) == HEARTBEAT_V0[13:] + b"tail"
    assert request.body.obj is request.frame
    assert request.decode() == HeartbeatRequest(group_id="g", generation_id=5, member_id="m")


def test_golden_request_that_cannot_be_decoded_and_its_answer() -> None:
    connection = ServerConnection(KNOWN)
    unregister_controller = b"\0\x5e\0\0\0\0\0\x07\0\x03abc\0" + b"\0\0\0\x05\0"
    (request,) = connection.receive_data(frame(unregister_controller))
    assert (request.api_key, request.client_id) == (ApiKey.UNREGISTER_CONTROLLER, "abc")
    assert bytes(request.body) == b"\0\0\0\x05\0"
    connection.answer_raw(request, [b"\0\0\0\0", b"\0\0\0\0"])
    assert sent(connection) == b"\0\0\0\x0d\0\0\0\x07\0" + bytes(8)


@each_version(ALL_VERSIONS)
def test_the_answer_has_the_header_kio_reads(api_key: ApiKey, version: int) -> None:
    connection = ServerConnection(SERVED)
    (request,) = connection.receive_data(frame(sample_request(api_key, version)))
    connection.answer_raw(request, [b"bo", b"dy"])
    answer = sent(connection)
    header: Any = load_response_schema(api_key, version).__header_schema__
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    assert answer.endswith(b"body")
    assert decode(header, answer[4:-4]).correlation_id == 7


def test_golden_request_and_answer() -> None:
    connection = ServerConnection(SERVED)
    (request,) = connection.receive_data(frame(HEARTBEAT_V0))
    assert request.client_id == "abc"
    assert request.decode() == HeartbeatRequest(group_id="g", generation_id=5, member_id="m")
    connection.answer(request, HeartbeatResponse())
    assert sent(connection) == b"\0\0\0\x06\0\0\0\x07\0\0"
    assert connection.data_to_send() == []


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_answers_leave_in_the_order_of_the_requests(order: tuple[int, ...]) -> None:
    connection = ServerConnection(SERVED)
    requests = connection.receive_data(b"".join(map(heartbeat, range(3))))
    done: set[int] = set()
    stream = b""
    for place in order:
        assert connection.pending == 3 - len(done)
        connection.answer(requests[place], HeartbeatResponse())
        done.add(place)
        stream += sent(connection)
        first = next((number for number in range(3) if number not in done), 3)
        assert stream == b"".join(map(answered, range(first)))
        assert connection.oldest is (requests[first] if first < 3 else None)
    assert connection.pending == 0


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("left", range(3))
def test_nothing_waits_for_a_request_that_is_left_unanswered(order: tuple[int, ...], left: int) -> None:
    connection = ServerConnection(SERVED)
    requests = connection.receive_data(b"".join(map(heartbeat, range(3))))
    waiting = [0, 1, 2]
    ready: set[int] = set()
    stream = expected = b""
    for place in order:
        if place == left:
            connection.no_response(requests[place])
            waiting.remove(place)
        else:
            connection.answer(requests[place], HeartbeatResponse())
            ready.add(place)
        while waiting and waiting[0] in ready:
            expected += answered(waiting.pop(0))
        stream += sent(connection)
        assert stream == expected
        assert connection.oldest is (requests[waiting[0]] if waiting else None)
        assert (connection.held, connection.pending) == (len(waiting), len(set(waiting) - ready))
    assert (connection.held, connection.pending) == (0, 0)


def test_what_is_left_unanswered_cannot_be_answered_nor_what_is_answered_left() -> None:
    connection = ServerConnection(SERVED)
    left, other = connection.receive_data(heartbeat(1) + heartbeat(2))
    connection.no_response(left)
    with pytest.raises(ValueError, match="has been answered"):
        connection.answer(left, HeartbeatResponse())
    with pytest.raises(ValueError, match="has been answered"):
        connection.no_response(left)
    connection.answer(other, HeartbeatResponse())
    with pytest.raises(ValueError, match="has been answered"):
        connection.no_response(other)
    assert sent(connection) == answered(2)


def test_a_second_answer_is_refused() -> None:
    connection = ServerConnection(SERVED)
    (request,) = connection.receive_data(heartbeat(1))
    connection.answer(request, HeartbeatResponse())
    with pytest.raises(ValueError, match="has been answered"):
        connection.answer(request, HeartbeatResponse())
    assert sent(connection) == answered(1)


def test_an_answer_that_cannot_be_written_leaves_the_request_unanswered() -> None:
    connection = ServerConnection(SERVED)
    (request,) = connection.receive_data(heartbeat(1))
    with pytest.raises(TypeError):
        connection.answer(request, FetchResponse())
    assert connection.oldest is request
    connection.answer(request, HeartbeatResponse())
    assert sent(connection) == answered(1)


def test_body_buffers_are_passed_on_as_they_are() -> None:
    connection = ServerConnection(SERVED)
    (request,) = connection.receive_data(heartbeat(1))
    records = memoryview(b"records")
    connection.answer_raw(request, [b"", records])
    assert any(buffer is records for buffer in connection.data_to_send())


@pytest.mark.parametrize("version", [5, 99, 2**15 - 1, -1])
def test_api_versions_in_an_unknown_version_is_a_request_of_v0(version: int) -> None:
    connection = ServerConnection({ApiKey.FETCH: (4, 17), ApiKey.API_VERSIONS: (0, 4)})
    unreadable = pack(">hhi", ApiKey.API_VERSIONS, version, 9) + b"\xff" * 5
    (request,) = connection.receive_data(frame(unreadable))
    assert (request.api_version, request.correlation_id, request.is_version_unknown) == (0, 9, True)
    assert request.decode() == ApiVersionsRequest()
    connection.answer(request, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=()))
    assert sent(connection)[4:] == b"\0\0\0\x09" + b"\0\x23" + bytes(4)
    (known,) = connection.receive_data(frame(sample_request(ApiKey.API_VERSIONS, 0)))
    assert not known.is_version_unknown


@pytest.mark.parametrize("version", range(5))
def test_api_versions_has_an_untagged_response_header(version: int) -> None:
    connection = ServerConnection(SERVED)
    (request,) = connection.receive_data(frame(sample_request(ApiKey.API_VERSIONS, version)))
    response = ApiVersionsResponse(api_keys=(ApiVersion(api_key=1, min_version=4, max_version=17),))
    connection.answer(request, response)
    body = b"".join(encode_response(ApiKey.API_VERSIONS, version, response))
    assert sent(connection) == pack(">ii", 4 + len(body), 7) + body


@pytest.mark.parametrize(
    ("request_bytes", "reason"),
    [
        pytest.param(pack(">hhi", 4711, 0, 1) + b"\xff\xff", "unknown_api", id="unknown API"),
        pytest.param(pack(">hhi", -1, 0, 1) + b"\xff\xff", "unknown_api", id="negative key"),
        pytest.param(pack(">hhi", 11, 0, 1) + b"\xff\xff", "unknown_api", id="an API that is not served"),
        pytest.param(pack(">hhi", 19, 5, 1) + b"\xff\xff", "unknown_api", id="an API that cannot be decoded"),
        pytest.param(pack(">hhi", 12, 3, 1) + b"\xff\xff", "unsupported_version", id="a version that is not served"),
        pytest.param(pack(">hhi", 12, -1, 1) + b"\xff\xff", "unsupported_version", id="negative version"),
        pytest.param(b"", "truncated", id="empty"),
        pytest.param(pack(">hhi", 12, 0, 1), "truncated", id="no client id"),
        pytest.param(pack(">hhi", 12, 0, 1) + b"\0\x05abc", "truncated", id="client id beyond the end"),
    ],
)
def test_hostile_headers(request_bytes: bytes, reason: str) -> None:
    connection = ServerConnection({ApiKey.HEARTBEAT: (0, 2)})
    with pytest.raises(ProtocolError) as caught:
        connection.receive_data(frame(request_bytes))
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("name", "client_id"),
    [(b"\xff\xff", None), (b"\xff\xfe", None), (b"\0\0", ""), (b"\0\4k\xe4se", "k\ufffdse")],
)
def test_the_name_of_a_client(name: bytes, client_id: str | None) -> None:
    (request,) = ServerConnection(SERVED).receive_data(frame(pack(">hhi", 18, 0, 1) + name))
    assert request.client_id == client_id


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (ApiKey.JOIN_GROUP, "JOIN_GROUP is not served here"),
        (ApiKey.CREATE_TOPICS, "CREATE_TOPICS is not served here"),
        (4, "API 4 is not known"),
        (4711, "API 4711 is not known"),
        (-1, "API -1 is not known"),
    ],
)
def test_an_api_that_is_not_served_is_named(key: int, message: str) -> None:
    with pytest.raises(ProtocolError, match=f"^{message}$"):
        ServerConnection({ApiKey.HEARTBEAT: (0, 2)}).receive_data(frame(pack(">hhi", key, 0, 1)))


@pytest.mark.parametrize("versions", [(0, 5), (-1, 2), (3, 2)])
def test_only_what_is_known_can_be_served(versions: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="HEARTBEAT"):
        ServerConnection({ApiKey.HEARTBEAT: versions})


def test_what_has_left_is_let_go() -> None:
    # Record buffers are reused after sending: neither the connection nor the request may keep them.
    class Records(bytearray):
        pass

    connection = ServerConnection(SERVED)
    (request,) = connection.receive_data(heartbeat(1))
    records = Records(b"records")
    alive = weakref.ref(records)
    connection.answer_raw(request, [records])
    del records
    assert sent(connection).endswith(b"records")
    gc.collect()
    assert alive() is None


def test_a_fetch_that_is_repeated_is_not_decoded_again_and_one_that_differs_is() -> None:
    connection = ServerConnection(SERVED)
    stream = b"".join(
        frame(sample_request(ApiKey.FETCH, version, number)) for number, version in enumerate((11, 11, 12))
    )
    first, again, other = connection.receive_data(stream)
    assert again.decode() is first.decode()
    assert_sample(again, ApiKey.FETCH, 11, 1)
    assert_sample(other, ApiKey.FETCH, 12, 2)
    body = bytearray(encode(sample(load_request_schema(ApiKey.FETCH, 11))))
    body[4:8] = pack(">i", 77)  # max_wait_ms
    header = sample_request(ApiKey.FETCH, 11, 3)[: -len(body)]
    (changed,) = connection.receive_data(frame(header + body))
    assert getattr(changed.decode(), "max_wait_ms") == 77  # noqa: B009 - of FetchRequest
    assert first.decode() is not changed.decode()


def test_a_large_fetch_is_not_kept() -> None:
    connection = ServerConnection(SERVED)
    topic = pack(">h", 1) + b"t" + pack(">i", 2_000) + pack(">iiqqi", 0, -1, 0, -1, 1) * 2_000
    body = pack(">iiiibii", -1, 500, 1, 1, 0, 0, -1) + pack(">i", 1) + topic + pack(">ih", 0, 0)
    request = pack(">hhih", 1, 11, 1, -1) + body
    first, again = connection.receive_data(frame(request) * 2)
    assert again.decode() == first.decode()
    assert again.decode() is not first.decode()
