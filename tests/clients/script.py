"""The contract of the consumers of these tests in all languages.

A consumer gets the JSON of `Script` as its only argument, and writes a JSON line for each thing that happens: `record`
with all its parts (bytes in base64), `assigned`, `revoked`, `lost`, `committed`, `commit failed`, `acted`, `error`.
SIGTERM closes it. `at` is the time (seconds of the machine's monotonic clock; only from the four clients that support
`positions`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

Protocol: TypeAlias = Literal["classic", "consumer"]
"""The group protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Tells a consumer what to do. group: None for a consumer without one. partitions: how many to assign to itself,
    instead of subscribing. Times are in milliseconds, or in seconds if the name says so.

    topic: several are separated by commas. pattern: a regular expression to subscribe to, in place of `topic`; "" for
    none (confluent-kafka, kafka-clients, franz-go). assignor: the only one that it offers to its group
    (confluent-kafka, kafka-python, kafka-clients); "" for its own choice. protocol: `consumer` is that of KIP-848, for
    clients that have it (confluent-kafka, kafka-clients, franz-go); then the coordinator has the `session_timeout`.
    commit: `auto` is the client's own, every `commit_interval`; `sync` after each poll; `async` after each poll,
    without waiting for an answer (confluent-kafka, kafka-python, kafka-clients). Before an act that needs uncommitted
    records, `sync` commits nothing. `positions` is `sync`, but names the positions, and reports them when the answer
    was good (aiokafka, kafka-python, confluent-kafka, kafka-clients). dies_of: the beginning of a value that ends the
    process at once with exit code 70, after the record was reported (the same four); "" for none. act: what to do once,
    after the poll in which record number `act_after` was handled: pause: all partitions, poll for a moment, resume;
    seek: back to the first uncommitted record; throw: out of the handler of that record, close, and start again
    (kafkajs, sarama: they restart by themselves); stall: handle that one record for `act_seconds`.
    """

    bootstrap_servers: str
    client_id: str
    group: str | None
    topic: str
    pattern: str = ""
    partitions: int = 0
    assignor: Literal["", "range", "roundrobin", "cooperative-sticky"] = ""
    reset: Literal["earliest", "latest", "none"] = "earliest"
    commit: Literal["auto", "sync", "async", "none", "positions"] = "auto"
    commit_interval: int = 500
    instance_id: str | None = None
    protocol: Protocol = "classic"
    session_timeout: int = 10_000
    max_poll_interval: int = 300_000
    records_per_poll: int = 100
    dies_of: str = ""
    seconds_per_record: float = 0.0
    act: Literal["", "pause", "seek", "throw", "stall"] = ""
    act_after: int = 0
    act_seconds: float = 0.0

    def to_json(self) -> str:
        """The argument of a consumer."""
        return json.dumps(asdict(self))
