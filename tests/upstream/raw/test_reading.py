"""The effects of one partition's part of an answer."""

from __future__ import annotations

import pytest

from mesh.records.encode import encode_batch
from mesh.upstream.raw.reading import (
    NO_NODE,
    REFUSED_RETRY_DELAY,
    RETRY_DELAY,
    NotTheLeader,
    OldFormatFound,
    Outcome,
    OutOfRange,
    Progress,
    ReadElsewhere,
    Reading,
    RetryLater,
    TruncationFound,
    outcome_of,
)
from mesh.wire.client.fetch import AbortedTransaction, Fetched
from tests.upstream.harness import source

# A message set of Kafka 0.8 (magic 0) and one of 0.10 (magic 1, with a timestamp): offset 7, key "k", value "v".
MAGIC_0 = bytes.fromhex("0000000000000007 00000010 1fecd70a 00 00 00000001 6b 00000001 76".replace(" ", ""))
MAGIC_1 = bytes.fromhex(
    "0000000000000007 00000018 39268c33 01 00 0000018bcfe56800 00000001 6b 00000001 76".replace(" ", "")
)


def answer(
    records: bytes = b"",
    error: int = 0,
    high: int = 9,
    stable: int = 9,
    preferred: int = -1,
    diverging: int | None = None,
    leader: tuple[int, int] | None = None,
) -> Fetched:
    data = memoryview(bytearray(records))
    return Fetched("orders", 0, error, high, stable, 0, (), data, preferred, diverging, leader)


def batch(base: int, count: int, epoch: int = 3) -> bytes:
    data = bytearray(encode_batch(base, [(base + n, 1, None, b"v", None) for n in range(count)]).data)
    data[12:16] = epoch.to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("fetched", "outcome"),
    [
        (answer(error=1), OutOfRange()),
        (answer(error=3), NotTheLeader(None, is_missing=True)),
        (answer(error=100), NotTheLeader(None, is_missing=True)),
        (answer(error=6), NotTheLeader()),
        (answer(error=6, leader=(2, 8)), NotTheLeader((2, 8))),
        (answer(error=74, leader=(2, 8)), NotTheLeader((2, 8))),
        (answer(error=75), RetryLater(RETRY_DELAY)),
        (answer(error=78), RetryLater(RETRY_DELAY)),
        (answer(error=29), RetryLater(REFUSED_RETRY_DELAY, 29)),
        (answer(error=76), RetryLater(REFUSED_RETRY_DELAY, 76)),
        (answer(diverging=4), TruncationFound(4)),
        (answer(preferred=2), ReadElsewhere(2)),
        (answer(), Progress((), 5, None, -1)),
        (answer(high=5, stable=5), Progress((), 5, 5, -1)),
        # A new leader does not know yet how far the log is committed.
        (answer(high=2, stable=2), Progress((), 5, None, -1)),
    ],
)
def test_answers_without_records(fetched: Fetched, outcome: Outcome) -> None:
    assert outcome_of(fetched, 5, True, False) == outcome


def test_the_epoch_is_that_of_the_last_whole_batch() -> None:
    whole = batch(5, 2, epoch=3) + batch(7, 1, epoch=4)
    progress = outcome_of(answer(whole + batch(8, 1, epoch=5)[:-1]), 5, True, False)
    assert isinstance(progress, Progress)
    (run,) = progress.batches
    assert (progress.position, progress.epoch, len(run.marks)) == (8, 4, 2)


def test_aborted_transactions_count_under_read_committed_only() -> None:
    data = bytearray(batch(5, 2))
    data[22] |= 0x10  # transactional
    data[43:51] = (77).to_bytes(8, "big")  # its producer
    aborted = Fetched("orders", 0, 0, 9, 7, 0, (AbortedTransaction(77, 5),), memoryview(data))
    committed, uncommitted = (outcome_of(aborted, 5, level, False) for level in (True, False))
    assert isinstance(committed, Progress)
    assert isinstance(uncommitted, Progress)
    assert (committed.batches, committed.position, committed.end) == ((), 7, 7)
    assert [each.first for each in uncommitted.batches] == [5]


@pytest.mark.parametrize("old", [MAGIC_0, MAGIC_1])
def test_old_record_formats(old: bytes) -> None:
    """Golden bytes: no present broker writes them."""
    outcome = outcome_of(answer(batch(5, 2) + old), 5, True, False)
    assert isinstance(outcome, OldFormatFound)
    assert (outcome.before.position, [each.last for each in outcome.before.batches]) == (7, [6])


def test_a_replica_is_read_while_there_is_a_leader() -> None:
    reading = Reading(source("orders"), 0, leader=1)
    assert reading.node == 1
    reading.replica = 2
    assert reading.node == 2
    reading.leader = NO_NODE
    assert reading.node == NO_NODE
