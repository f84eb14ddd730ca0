"""Closes a consumer with a last commit, so that the group does not wait for its session timeout."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException

from mesh.records.spans import CommitPosition, UpstreamPartition
from mesh.upstream.librdkafka.commit_queue import REQUEST_TIMED_OUT, CommitQueue, Errors

POLL = 0.002
LAST_COMMIT = 3.0
LEAVE = 2.0


def commit_at_last(
    consumer: Consumer,
    commits: CommitQueue,
    assigned: Mapping[UpstreamPartition, int],
    positions: Mapping[UpstreamPartition, CommitPosition],
) -> Mapping[UpstreamPartition, int]:
    """Commits these positions, after the commits before them, and waits at most `LAST_COMMIT` seconds. Returns the
    error of each partition. assigned: the partitions that the consumer owns, and its position in each."""
    answers: list[Errors] = []
    commits.offer(positions, answers.append)
    deadline = time.monotonic() + LAST_COMMIT
    while not answers and time.monotonic() < deadline:
        commits.send(consumer, assigned)
        consumer.poll(POLL)  # this record was never delivered, so nothing is lost
    return answers[0] if answers else dict.fromkeys(positions, REQUEST_TIMED_OUT)


def leave(consumer: Consumer) -> None:
    """Closes a consumer, and makes it leave its group. close() alone does not leave if the member is static (KIP-345),
    so its partitions would wait for the session timeout. Unsubscribing makes a static member leave, once the revocation
    has been served; the member id is empty then."""
    with suppress(KafkaException):
        consumer.unsubscribe()
        deadline = time.monotonic() + LEAVE
        while consumer.memberid() and time.monotonic() < deadline:
            consumer.poll(POLL)
    consumer.close()
