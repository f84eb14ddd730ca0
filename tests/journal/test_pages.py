"""Pages of the journal: they are read as they were written, and other bytes are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.journal.pages import MARKER, PREFIX, NotAPage, Page, decode, schema_text
from mesh.pool.common.delivery_events import DeliveryEventType

NAMES = st.text(max_size=5)
TIMES = st.integers(0, 1 << 41)
OFFSETS = st.integers(0, 1 << 62)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([kind.value for kind in DeliveryEventType]),
        TIMES,
        st.tuples(NAMES, NAMES),
        st.tuples(NAMES, NAMES, st.integers(0, 1 << 30)),
        st.tuples(NAMES, NAMES, NAMES, NAMES),
        OFFSETS,
        st.integers(0, 1000),
        st.integers(0, 1000),
        st.one_of(st.just(-1), TIMES),
    ),
    max_size=6,
)


@given(events=EVENTS, begun=TIMES, dropped=st.integers(0, 1 << 40), is_last=st.booleans())
def test_what_is_written_is_read_again(
    events: list[tuple[object, ...]], begun: int, dropped: int, is_last: bool
) -> None:
    page = Page(begun)
    for event, time, pool, partition, holder, first, offsets, deliveries, produced in events:
        page.add(event, time, pool, partition, holder, first, first + offsets - 1, deliveries, produced)  # type: ignore[arg-type,operator]
    read = decode(page.encode("p", "r", 7, dropped, begun if dropped else 0, is_last))
    assert (read.process, read.run, read.sequence, read.is_last, read.time) == ("p", "r", 7, is_last, begun)
    assert (read.dropped, read.dropped_since) == (dropped, begun if dropped else 0)
    found = [
        (
            each.event,
            each.time,
            (each.virtual_cluster, each.group),
            (each.cluster, each.topic, each.partition),
            (each.member, each.client_id, each.host, each.lease),
            each.first,
            each.last - each.first + 1,
            each.deliveries,
            each.produced,
        )
        for each in read
    ]
    assert found == events
    assert len(page) == len(events)


def test_it_takes_few_bytes_for_an_event() -> None:
    page = Page(1_700_000_000_000)
    for number in range(1_000):
        place, holder = ("eu", "orders", number % 12), (f"member-{number % 20}", "app", "10.0.0.1", "")
        page.add("delivered", page.begun + number, ("v", "g"), place, holder, number * 500, number * 500 + 499, 1, -1)
    assert len(page.encode("", "run", 0)) < 30 * 1_000


def test_the_bytes_are_those_that_are_written_down() -> None:
    page = Page(1)
    page.add("delivered", 1, ("v", "g"), ("c1", "t", 3), ("m", "c", "h", ""), 10, 14, 1, -2 + 1)
    data = page.encode("p", "r", 1)
    golden = bytes.fromhex(
        "0270 0272 02 00 02 00 00"  # process, run, sequence, is_last, time, dropped, dropped_since
        "02 0276 0267 00"  # pools: one block of one, end
        "02 046331 0274 06 00"  # partitions
        "02 026d 0263 0268 00 00"  # holders: the last name is empty
        "02 02 00"  # event: delivered
        "02 00 00 02 00 00 02 00 00 02 00 00"  # after, pool, partition, holder
        "02 14 00 02 0a 00 02 02 00"  # first 10, offsets 5, deliveries 1
        "02 ffffffffffffffffff01 00".replace(" ", "")  # age: unknown
    )
    assert data == PREFIX + golden
    assert PREFIX[:2] == MARKER


def test_a_page_of_the_first_version_is_read() -> None:
    data = bytes.fromhex(
        "c301b544e70fdcfce29a"
        "0270 0272 0e 01 80a0abfef962 04 b090abfef962"
        "02 0c6f7264657273 0267 00 02 046575 0274 06 00 04 00000000 066d2d31 0263 1031302e302e302e31 00 00"
        "04000200 04020a00 04000000 04000000 04000200 04001400 04141400 04000200 04ffffffffffffffffff010a00"
    )
    page = decode(data)
    assert (page.process, page.run, page.sequence, page.is_last, page.dropped) == ("p", "r", 7, True, 2)
    known, delivered = page
    assert (known.event, known.first, known.last) == ("known", 0, 9)
    assert (delivered.event, delivered.first, delivered.last, delivered.member) == ("delivered", 10, 19, "m-1")


@pytest.mark.parametrize("data", [b"", b"{}", MARKER + bytes(8), PREFIX, PREFIX + b"\xff" * 40])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(NotAPage):
        decode(data)


def test_a_page_that_was_cut_off_is_refused() -> None:
    page = Page(1)
    page.add("delivered", 1, ("v", "g"), ("c", "t", 3), ("m", "c", "h", ""), 10, 14, 1, 0)
    data = page.encode("p", "r", 1)
    for end in range(len(data)):
        with pytest.raises(NotAPage):
            decode(data[:end])


def test_the_schema_knows_every_kind_of_note_and_is_documented() -> None:
    schema = json.loads(schema_text())
    event = next(field for field in schema["fields"] if field["name"] == "event")
    assert event["type"]["items"]["symbols"] == [kind.value for kind in DeliveryEventType]
    page = (Path(__file__).parents[2] / "docs" / "journal.md").read_text()
    for field in schema["fields"]:
        assert f"`{field['name']}`" in page, field["name"]
    for kind in DeliveryEventType:
        assert f"`{kind.value}`" in page, kind
    assert PREFIX.hex() in page
