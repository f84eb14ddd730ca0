"""`python -m mesh.demo.processes.member --help`: an ordinary consumer, which happens to be connected to the mesh.

It subscribes, works on records as they come, journals them, and lets librdkafka commit processed records, until
SIGTERM.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from mesh.demo.processes.journal import DemoJournal, Entry, JournalRecord
from mesh.demo.processes.signals import StopRequest

_RECORDS_PER_POLL = 10
_POLL_TIMEOUT = 0.2


class Fault(Enum):
    """A deliberate fault of a member at its first record, which the judge must notice."""

    NONE = "none"
    SUPPRESS = "suppress"
    REPEAT = "repeat"
    ALTER = "alter"


def receipts(entry: Entry, fault: Fault) -> tuple[Entry, ...]:
    """Returns the journal entries for a received record."""
    match fault:
        case Fault.NONE:
            return (entry,)
        case Fault.SUPPRESS:
            return ()
        case Fault.REPEAT:
            return (entry, entry)
        case Fault.ALTER:
            return (replace(entry, fingerprint="0" * len(entry.fingerprint)),)


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """The options of a consumer of the demo. work: seconds of work on each record. session: the session timeout in
    seconds."""

    bootstrap_servers: str
    group: str
    topic: str
    name: str
    journal: Path
    work: float
    session: float
    fault: Fault


def run(options: MemberOptions) -> None:
    """Consumes until a stop. Raises KafkaException when the consumer reports an error."""
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap_servers,
            "group.id": options.group,
            "client.id": options.name,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "session.timeout.ms": int(options.session * 1000),
            # Otherwise a record could be committed before it is in the journal, and a kill in between would lose it.
            "enable.auto.offset.store": False,
        }
    )
    consumer.subscribe([options.topic])
    fault = options.fault
    with StopRequest() as stop, DemoJournal(options.journal) as journal:
        while not stop.wait(0):
            messages = consumer.consume(_RECORDS_PER_POLL, _POLL_TIMEOUT)
            messages = [message for message in messages if not _was_frozen(message)]
            for message in messages:
                journal.write(receipts(_entry(message), fault))
                fault = Fault.NONE
                time.sleep(options.work)  # simulates the work of an application
            journal.flush()
            for message in messages:
                _processed(consumer, message)
        consumer.close()


def _was_frozen(message: Message) -> bool:
    """Returns whether the consumer was frozen for five minutes; then it has joined again."""
    error = message.error()
    return error is not None and error.code() == KafkaError._MAX_POLL_EXCEEDED


def _processed(consumer: Consumer, message: Message) -> None:
    """Stores the offset of a processed record for the next commit, unless its partition was revoked meanwhile."""
    try:
        consumer.store_offsets(message)
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError._STATE:
            raise


def _entry(message: Message) -> Entry:
    if (error := message.error()) is not None:
        raise KafkaException(error)
    return Entry.of(JournalRecord.of(message))


def _options() -> MemberOptions:
    parser = argparse.ArgumentParser(prog="python -m mesh.demo.processes.member")
    for name in ("bootstrap-servers", "group", "topic", "name"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--journal", required=True, type=Path)
    parser.add_argument("--work", default=0.0, type=float, help="seconds that one record takes")
    parser.add_argument(
        "--session", default=45.0, type=float, help="seconds of silence until the group takes it for dead"
    )
    parser.add_argument("--fault", default=Fault.NONE, type=Fault, help=argparse.SUPPRESS)
    return MemberOptions(**vars(parser.parse_args()))


if __name__ == "__main__":
    run(_options())
