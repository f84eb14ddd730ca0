"""The decoder reads requests as brokers do, even if their bytes are not as a good client writes them.

A real broker and the decoder get the same bytes, for every API in every version. They refuse the same ones. If the
broker answers two encodings alike, the decoder makes the same message of them. In one thing the decoder is stricter:
tags must ascend, and the size of a known tagged field must be that of its value.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kio.index import load_request_schema

from mesh.wire.apis import APIS, ApiKey
from mesh.wire.connection import ServerConnection
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import RequestMessage
from tests.integration.kafka import KafkaCluster
from tests.integration.raw import Endpoint, RawConnection
from tests.pool.apis.harness import Client, Mesh
from tests.pool.apis.messages import request as request_frame
from tests.relay.normal import normal
from tests.wire.entities import ALL_VERSIONS, anatomy, frame, header_and_body, sample
from tests.wire.spellings import Spelling

pytestmark = pytest.mark.smoke
SERVED = {api_key: (versions.lowest, versions.highest) for api_key, versions in APIS.items()}
TAILS = (b"\0\0\0", b"\xff" * 9)
WIDTHS = (2, 5)
METADATA_V12 = (3).to_bytes(2, "big") + (12).to_bytes(2, "big") + (7).to_bytes(4, "big")
"""The bytes up to its client id."""


@pytest.fixture
def broker(kafka: KafkaCluster) -> Iterator[RawConnection]:
    kafka.committed("any")  # until its coordinator is ready, the answers vary
    broker = RawConnection(Endpoint.of(kafka.bootstrap_servers))
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def topic(kafka: KafkaCluster) -> str:
    kafka.create_topic("asked-for-in-other-words", 1)
    return "asked-for-in-other-words"


def decoded(request: bytes) -> RequestMessage | None:
    """The mesh's decoded message of a request; None if it refuses it."""
    try:
        (received,) = ServerConnection(SERVED).receive_data(frame(request))
        return received.decode()
    except ProtocolError:
        return None


def answered(broker: RawConnection, api_key: ApiKey, version: int, request: bytes) -> bytes | None:
    """The broker's answer, without the epoch of its features, which grows twice a second."""
    answer = broker.ask(request)
    return normal("api_versions", version, answer).kept if api_key is ApiKey.API_VERSIONS else answer


@pytest.mark.parametrize("api_key", list(APIS), ids=[each.name for each in APIS])
def test_what_is_behind_a_request_and_how_wide_its_varints_are_changes_nothing(
    broker: RawConnection, api_key: ApiKey
) -> None:
    for version in APIS[api_key].all():
        header, body = header_and_body(api_key, version)
        wide = [Spelling(width=width).write(sample(load_request_schema(api_key, version))) for width in WIDTHS]
        usual = answered(broker, api_key, version, header + body), decoded(header + body)
        assert None not in usual
        for other in (*(body + tail for tail in TAILS), *wide):
            found = answered(broker, api_key, version, header + other), decoded(header + other)
            assert found == usual, (version, other.hex())


@pytest.mark.parametrize("null", [-1, -2, -100])
def test_null_is_refused_where_a_broker_refuses_it(broker: RawConnection, null: int) -> None:
    refused = set()
    for api_key, version in ALL_VERSIONS:
        header, body = header_and_body(api_key, version)
        entity = sample(load_request_schema(api_key, version))
        counted = Spelling()
        assert counted.write(entity) == body
        for place in range(counted.lengths):
            request = header + Spelling(null_at=place, null=null).write(entity)
            answer, message = broker.ask(request), decoded(request)
            assert (answer is None) == (message is None), (api_key.name, version, place, answer, message)
            refused.add(answer is None)
    assert refused == {True, False}


@pytest.mark.parametrize(
    ("usual", "other"),
    [
        pytest.param(b"\0\0\0", b"\0\0\0\0\1\0\0", id="a null that librdkafka writes in four bytes"),
        pytest.param(b"\0\1\0", b"\xff\xff\xff\xff\x0f\1\0", id="a count of -2"),
        pytest.param(b"\0\1\0", b"\x80\x80\x80\x80\x10\1\0", id="bits above the 32"),
        pytest.param(b"\0\1\0", b"\0\xff\0", id="a boolean of 255"),
    ],
)
def test_all_topics_are_asked_for_in_other_words(broker: RawConnection, topic: str, usual: bytes, other: bytes) -> None:
    header = METADATA_V12 + b"\0\1c\0"
    answer = broker.ask(header + usual + b"\0")
    assert answer is not None
    assert topic.encode() in answer
    assert broker.ask(header + other + b"\0") == answer
    assert decoded(header + other + b"\0") == decoded(header + usual + b"\0") is not None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x80\x80\x80\x80\x08\1\0\0", id="the lowest number, less one: a huge count"),
        pytest.param(b"\xff\xff\xff\xff\x07\1\0\0", id="a huge count"),
        pytest.param(b"\x80\x80\x80\x80\x80\0\1\0\0", id="a varint of six bytes"),
        pytest.param(b"\0\1\0\1\5\xff\xff\xff\xff\x0f", id="a tagged field of size -1"),
        pytest.param(b"\0\1\0\1\5\2a", id="a tagged field beyond the end"),
        pytest.param(b"\0\1", id="cut off"),
    ],
)
def test_what_both_refuse(broker: RawConnection, body: bytes) -> None:
    assert broker.ask(METADATA_V12 + b"\0\1c\0" + body) is None
    assert decoded(METADATA_V12 + b"\0\1c\0" + body) is None


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"\xff\xff\0", id="no client id"),
        pytest.param(b"\xff\x9c\0", id="a client id of length -100"),
        pytest.param(b"\0\1\xe4\0", id="a client id in Latin-1"),
        pytest.param(b"\0\1c\1\x05\1\0", id="a tagged field"),
        pytest.param(b"\0\1c\2\x05\1\0\x06\1\0", id="two tagged fields"),
        pytest.param(b"\0\1c\x80\x80\0", id="no tagged fields, in three bytes"),
    ],
)
def test_headers(broker: RawConnection, header: bytes) -> None:
    usual = broker.ask(METADATA_V12 + b"\0\1c\0" + b"\1\0\0\0")
    assert broker.ask(METADATA_V12 + header + b"\1\0\0\0") == usual is not None
    assert decoded(METADATA_V12 + header + b"\1\0\0\0") == decoded(METADATA_V12 + b"\0\1c\0" + b"\1\0\0\0") is not None


@pytest.mark.parametrize(
    ("header", "end"),
    [
        pytest.param(b"\xff\xff\xff\xff\x0f", b"\0", id="-1 tagged fields in the header"),
        pytest.param(b"\0", b"\xff\xff\xff\xff\x0f", id="-1 tagged fields"),
        pytest.param(b"\2\x05\1\0\x05\1\0", b"\0", id="a tagged field of the header twice"),
        pytest.param(b"\2\x06\1\0\x05\1\0", b"\0", id="tags of the header descend"),
        pytest.param(b"\0", b"\2\x05\1\0\x05\1\0", id="a tagged field twice"),
        pytest.param(b"\0", b"\2\x06\1\0\x05\1\0", id="tags descend"),
    ],
)
def test_the_number_and_the_order_of_tags_are_those_of_the_protocol(
    broker: RawConnection, header: bytes, end: bytes
) -> None:
    """A broker ignores tags that it does not know, in any order. From Kafka 4.4 on it refuses a negative number of
    tagged fields."""
    usual = broker.ask(METADATA_V12 + b"\0\1c\0" + b"\1\0\0\0")
    request = METADATA_V12 + b"\0\1c" + header + b"\1\0\0" + end
    assert broker.ask(request) == usual is not None
    assert decoded(request) is None


@pytest.mark.parametrize("more", [-1, 1])
def test_the_size_of_a_known_tagged_field_is_that_of_its_value(broker: RawConnection, more: int) -> None:
    """A broker reads the value, and continues behind it."""
    parts = anatomy.whole((ApiKey.FETCH, 17, Direction.REQUEST))
    header, _ = header_and_body(ApiKey.FETCH, 17)
    usual = broker.ask(header + anatomy.encoded(parts))
    assert decoded(header + anatomy.encoded(parts)) is not None
    for section in anatomy.sections(parts):
        for field in section.fields:
            field.more = more
            assert broker.ask(header + anatomy.encoded(parts)) == usual is not None
            assert decoded(header + anatomy.encoded(parts)) is None
            field.more = 0


@pytest.mark.parametrize("version", APIS[ApiKey.PRODUCE].all())
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_produce_without_acks_is_left_unanswered_or_ends_the_connection(
    broker: RawConnection, topic: str, version: int, is_empty: bool
) -> None:
    """Neither stores anything: a broker refuses records that are not valid."""
    data = () if is_empty else ({"name": topic, "partition_data": ({"index": 0, "records": b"records"},)},)
    values = {"acks": 0, "timeout": 1_000, "topic_data": data}
    unanswered = request_frame(ApiKey.PRODUCE, version, 6, "c", values)
    metadata = METADATA_V12 + b"\0\1c\0" + b"\1\0\0\0"
    before = broker.ask(metadata)
    broker.tell(unanswered)
    assert broker.ask(metadata) == (before if is_empty else None)
    client = Client(Mesh())
    try:
        left = client.receive(unanswered)
    except ProtocolError:
        assert not is_empty
    else:
        assert (left, client.wire.held, is_empty) == (b"", 0, True)


def test_text_that_is_not_utf_8(broker: RawConnection) -> None:
    """A broker's error contains it with a replacement for characters that it cannot read."""
    request = METADATA_V12 + b"\0\1c\0" + b"\2" + bytes(16) + b"\4a\xffb" + b"\0\1\0\0"
    readable = METADATA_V12 + b"\0\1c\0" + b"\2" + bytes(16) + b"\6a\xef\xbf\xbdb" + b"\0\1\0\0"
    assert broker.ask(request) == broker.ask(readable) is not None
    assert decoded(request) == decoded(readable) is not None
