"""What a small frame takes on its way through a relay: steps of the interpreter, which are the same on every machine.

At a given load of small frames they are most of what a relay costs over one that knows nothing of Kafka.
"""

from __future__ import annotations

from struct import pack

from mesh.wire.apis import ApiKey
from mesh.wire.relayed_apis import ADVERTISED_APIS
from mesh.wire.relaying import RelayedConnection, RelayedRequest
from tests.benchmarks.steps import count_steps

PARTITIONS = 6
REQUEST = (
    pack(">ihhih", 1_032, ApiKey.PRODUCE, 13, 7, 8) + b"producer" + b"\0\0" + pack(">hi", -1, 30_000) + bytes(1_006)
)
_PARTITION = pack(">ihqqq", 0, 0, 0, -1, 0) + b"\x01\0\0"
_TOPIC = bytes(16) + bytes([PARTITIONS + 1]) + PARTITIONS * _PARTITION + b"\0"
_ANSWER = pack(">i", 7) + b"\0\x02" + _TOPIC + bytes(4) + b"\0"
ANSWER = pack(">i", len(_ANSWER)) + _ANSWER


class Nowhere:
    """No address is asked for: nobody has moved."""

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        raise AssertionError(node)


def test_a_produce_and_its_answer() -> None:
    answered: list[RelayedRequest] = []
    wire = RelayedConnection(ADVERTISED_APIS, ADVERTISED_APIS, frozenset(), Nowhere(), answered.append, 1 << 20)
    request, answer = memoryview(bytearray(REQUEST)), memoryview(bytearray(ANSWER))

    def pass_on() -> None:
        assert b"".join(wire.receive_requests(request, 0.0)) == REQUEST
        assert b"".join(wire.receive_answers(answer)) == ANSWER

    for _ in range(3):
        pass_on()
    assert count_steps(pass_on) < 1_200, "they were 1,789 before answers with nothing but offsets were known at a look"
    assert len(answered) == 4
