"""What a consumer of these tests does and reports, whatever language it is written in.

A consumer takes the JSON of `Script` as its only argument and writes a JSON line for whatever happens: `record` with
all there is to see of it (bytes in base64), `assigned`, `revoked`, `lost`, `committed`, `commit failed`, `acted`,
`error`. SIGTERM closes it. `at` is when (seconds of the machine's monotonic clock; the four clients that know
`positions`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

Protocol: TypeAlias = Literal["classic", "consumer"]
"""Of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """group: None for a consumer without one. partitions: to assign itself so many instead of subscribing.
    Times in milliseconds, seconds where the name says so.

    topic: several may be separated by commas.
    pattern: a regular expression of what it subscribes to, in place of `topic`; "" for none (confluent-kafka,
    kafka-clients, franz-go).
    assignor: the only one it offers to its group (confluent-kafka, kafka-python, kafka-clients); "" for its own choice.
    protocol: `consumer` is that of KIP-848, for clients that have it (confluent-kafka, kafka-clients, franz-go);
    `session_timeout` is the coordinator's then.
    commit: `auto` is the client's own, every `commit_interval`; `sync` after each poll; `async` after each poll,
    without waiting for an answer (confluent-kafka, kafka-python, kafka-clients). Before an act that is to find
    something un-committed, `sync` commits nothing. `positions` is `sync`, but says what is to be committed, and reports
    it when the answer was good (aiokafka, kafka-python, confluent-kafka, kafka-clients).
    dies_of: a record whose value begins so ends the process at once with exit code 70, after it was reported (the same
    four); "" for none.
    act: what to do once, after the poll in which record number `act_after` was handled:
    pause: all partitions, poll for a moment, resume;  seek: back to the first record it has not committed;
    throw: out of the handler of that record, close, and start anew (kafkajs, sarama: they start anew by themselves);
    stall: handle that one record for `act_seconds`.
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
        """What a consumer takes as its argument."""
        return json.dumps(asdict(self))
