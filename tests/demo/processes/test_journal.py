"""The lines of a journal about a record; a reader can follow a journal while it grows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mesh.demo.processes.feeder import order
from mesh.demo.processes.journal import Counter, DemoJournal, Entry, JournalRecord, RecordId, read
from mesh.demo.processes.member import Fault, receipts

ORDER = order("eu", 7, 1_700_000_000_000)


def test_orders_have_ids_of_their_own() -> None:
    records = [order(cluster, number, 0) for cluster in ("eu", "us") for number in range(300)]
    assert len({Entry.of(record).id for record in records}) == 600


def test_the_same_record_has_the_same_entry() -> None:
    assert Entry.of(ORDER) == Entry.of(replace(ORDER))
    assert Entry.of(ORDER).id == "eu-7"


@pytest.mark.parametrize(
    "altered",
    [
        replace(ORDER, key=b""),
        replace(ORDER, key=None),
        replace(ORDER, value=(ORDER.value or b"") + b" "),
        replace(ORDER, headers=ORDER.headers[:-1]),
        replace(ORDER, headers=ORDER.headers[::-1]),
        replace(ORDER, headers=(*ORDER.headers[:-1], (ORDER.headers[-1][0], b""))),
        replace(ORDER, timestamp=ORDER.timestamp + 1),
    ],
)
def test_whatever_is_altered_shows(altered: JournalRecord) -> None:
    assert Entry.of(altered).id == Entry.of(ORDER).id
    assert Entry.of(altered).fingerprint != Entry.of(ORDER).fingerprint


@pytest.mark.parametrize("value", [None, b"", b"no json", b"[]", b'{"item": "rope"}', b"\xff"])
def test_a_record_of_somebody_else_is_refused(value: bytes | None) -> None:
    with pytest.raises(ValueError, match="without an order id"):
        Entry.of(replace(ORDER, value=value))


def test_a_journal_is_read_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    counter = Counter(path)
    assert (counter.count(), list(read(path))) == (0, [])
    first, second = Entry(RecordId("eu-1"), "a"), Entry(RecordId("us-2"), "b")
    with DemoJournal(path) as journal:
        journal.write([first])
        journal.flush()
        assert (counter.count(), list(read(path))) == (1, [first])
        journal.write([second])
    assert (counter.count(), list(read(path))) == (2, [first, second])


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text("eu-1 a\nus-2 b")
    assert list(read(path)) == [Entry(RecordId("eu-1"), "a")]
    assert Counter(path).count() == 1


def test_faults() -> None:
    entry = Entry.of(ORDER)
    assert receipts(entry, Fault.NONE) == (entry,)
    assert receipts(entry, Fault.SUPPRESS) == ()
    assert receipts(entry, Fault.REPEAT) == (entry, entry)
    (altered,) = receipts(entry, Fault.ALTER)
    assert altered.id == entry.id
    assert altered.fingerprint != entry.fingerprint
