"""How a consumer leaves its group: with a last commit, and so that nobody waits for its session to end."""

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
    """The errors of this commit, by partition; waits for those before it, `LAST_COMMIT` seconds at most.

    assigned: what the consumer owns, and how far each is read.
    """
    answers: list[Errors] = []
    commits.offer(positions, answers.append)
    deadline = time.monotonic() + LAST_COMMIT
    while not answers and time.monotonic() < deadline:
        commits.send(consumer, assigned)
        consumer.poll(POLL)  # what it brings was never delivered, so it is not lost
    return answers[0] if answers else dict.fromkeys(positions, REQUEST_TIMED_OUT)


def leave(consumer: Consumer) -> None:
    """Close it. close() alone does not leave if the member is static (KIP-345); its partitions would wait for the
    session to time out. Unsubscribing does, when the revocation has been served; the member id is gone then."""
    with suppress(KafkaException):
        consumer.unsubscribe()
        deadline = time.monotonic() + LEAVE
        while consumer.memberid() and time.monotonic() < deadline:
            consumer.poll(POLL)
    consumer.close()
