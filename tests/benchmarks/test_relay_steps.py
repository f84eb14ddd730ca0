"""The cost of a small frame on its way through a relay or a union, in steps of the interpreter, which are the same on
every machine.

With many small frames these steps are most of the difference between a relay and a proxy that knows nothing of Kafka.
"""

from __future__ import annotations

from struct import pack

from mesh.routing.names import LeafNumber
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.relayed_apis import ADVERTISED_APIS
from mesh.wire.relaying import RelayedConnection, RelayedRequest
from mesh.wire.routed import RoutedConnection
from mesh.wire.trees import write_tree
from tests.benchmarks.steps import count_steps
from tests.routing.test_translation import translation
from tests.routing.unions import SAME

PARTITIONS = 6
REQUEST = (
    pack(">ihhih", 1_032, ApiKey.PRODUCE, 13, 7, 8) + b"producer" + b"\0\0" + pack(">hi", -1, 30_000) + bytes(1_006)
)
_PARTITION = pack(">ihqqq", 0, 0, 0, -1, 0) + b"\x01\0\0"
_TOPIC = bytes(16) + bytes([PARTITIONS + 1]) + PARTITIONS * _PARTITION + b"\0"
_ANSWER = pack(">i", 7) + b"\0\x02" + _TOPIC + bytes(4) + b"\0"
ANSWER = pack(">i", len(_ANSWER)) + _ANSWER


class Nowhere:
    """Fails if it is asked for an address: nothing has moved."""

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


def framed(body: bytes) -> memoryview:
    return memoryview(bytearray(pack(">i", len(body)) + body))


def test_a_produce_and_its_answer_in_a_union() -> None:
    """For the leaf that hands out producer ids; topics have the same names there."""
    answered: list[RelayedRequest] = []
    of_leaf = translation(LeafNumber(0), SAME)
    wire = RoutedConnection(ADVERTISED_APIS, frozenset(), Nowhere(), of_leaf, answered.append, 1 << 20)
    produced = {"name": "orders", "partition_data": [{"index": 0, "records": bytes(1_000)}]}
    body = write_tree(
        ApiKey.PRODUCE, 12, Direction.REQUEST, {"acks": -1, "timeout_ms": 30_000, "topic_data": [produced]}
    )
    stored = {"name": "orders", "partition_responses": [{"index": 0, "base_offset": 5}]}
    request = framed(pack(">hhih", ApiKey.PRODUCE, 12, 7, 8) + b"producer\0" + body)
    answer = framed(pack(">i", 7) + b"\0" + write_tree(ApiKey.PRODUCE, 12, Direction.RESPONSE, {"responses": [stored]}))

    def pass_on() -> None:
        assert b"".join(wire.receive_requests(request, 0.0)) == request
        assert b"".join(wire.receive_answers(answer)) == answer

    for _ in range(3):
        pass_on()
    assert count_steps(pass_on) < 1_850, "they were 2,909 before its topics were read straight"
    assert len(answered) == 4
