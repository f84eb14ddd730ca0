"""Requests leave with their headers, responses come back in order, and what does not fit closes the connection."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.client.connection import ClientConnection, ClientRequest, ClientResponse
from mesh.wire.errors import ProtocolError

PLAIN = ClientRequest(3, 7, False, (b"body",))
FLEXIBLE = ClientRequest(3, 12, True, (b"bo", b"dy"))


def receive(connection: ClientConnection, data: bytes, sizes: list[int] | None = None) -> list[ClientResponse]:
    """Passes the bytes in, at most so many at a time."""
    responses: list[ClientResponse] = []
    at, turn = 0, 0
    while at < len(data):
        target = connection.buffer()
        most = sizes[turn % len(sizes)] if sizes else len(data)
        count = min(len(target), most, len(data) - at)
        target[:count] = data[at : at + count]
        at, turn = at + count, turn + 1
        if (response := connection.received(count)) is not None:
            responses.append(response)
    return responses


def test_request_headers() -> None:
    connection = ClientConnection("mesh")
    assert b"".join(connection.send(PLAIN)) == bytes.fromhex("00000012 0003 0007 00000000 0004") + b"meshbody"
    assert b"".join(connection.send(FLEXIBLE)) == bytes.fromhex("00000013 0003 000c 00000001 0004") + b"mesh\0body"
    assert b"".join(ClientConnection(None).send(PLAIN)) == bytes.fromhex("0000000e 0003 0007 00000000 ffff") + b"body"
    assert connection.unanswered == 2


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=5), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_responses_are_those_of_their_requests_however_they_arrive(bodies: list[bytes], sizes: list[int]) -> None:
    connection = ClientConnection("mesh")
    requests = [ClientRequest(1, 10, False, (b"%d" % number,)) for number in range(len(bodies))]
    for request in requests:
        connection.send(request)
    stream = b"".join(struct.pack(">ii", len(body) + 4, number) + body for number, body in enumerate(bodies))
    responses = receive(connection, stream, sizes)
    assert [response.request for response in responses] == requests
    assert [bytes(response.frame[response.body :]) for response in responses] == bodies
    assert connection.unanswered == 0


def test_the_tagged_fields_of_a_header_are_passed_over() -> None:
    connection = ClientConnection("mesh")
    connection.send(FLEXIBLE)
    (response,) = receive(connection, struct.pack(">iib", 6, 0, 0) + b"x")
    assert bytes(response.frame[response.body :]) == b"x"


def test_the_response_header_of_api_versions_has_no_tagged_fields() -> None:
    connection = ClientConnection("mesh")
    connection.send(ClientRequest(18, 3, True, ()))
    (response,) = receive(connection, struct.pack(">iib", 5, 0, 7))
    assert bytes(response.frame[response.body :]) == b"\x07"


def test_a_request_without_response_is_not_waited_for() -> None:
    connection = ClientConnection("mesh")
    connection.send(ClientRequest(0, 3, False, (), has_response=False))
    assert connection.unanswered == 0


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 3),
        struct.pack(">i", 1_001),
        struct.pack(">ii", 4, 1),
        struct.pack(">ii", 4, 0) * 2,
    ],
)
def test_what_was_not_asked_for_or_is_too_long_is_refused(data: bytes) -> None:
    allocated: list[int] = []

    def allocate(size: int) -> bytearray:
        allocated.append(size)
        return bytearray(size)

    connection = ClientConnection("mesh", allocate, limit=1_000)
    connection.send(PLAIN)
    with pytest.raises(ProtocolError):
        receive(connection, data)
    assert all(size <= 1_000 for size in allocated)
