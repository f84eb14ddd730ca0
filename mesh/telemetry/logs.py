"""Structured logs: the message says what happened, in words that never change; the keys say who and how much.

The libraries' own logs go the same way. `VOCABULARY` holds all keys there are, and a test holds the code to it, so that
one search finds everything about a group, a member or a connection.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, Literal, TextIO

import structlog

from mesh.config.secrets import HIDDEN, is_secret_name

VOCABULARY: Final[Mapping[str, str]] = {
    "address": "HOST:PORT, of ours",
    "api": "name of a Kafka API",
    "broker": "HOST:PORT of an upstream broker",
    "changes": "what has changed in the configuration, in words",
    "claimed": "the user name of somebody who could not prove it",
    "client_host": "where a client connects from",
    "client_id": "the client.id a client sent",
    "allowed": "what would have been right in its place",
    "cluster": "an upstream cluster, as the configuration names it",
    "clusters": "upstream clusters, as the configuration names them",
    "connections": "client connections at the same time",
    "connection": "number of a client connection, unique in this process",
    "deadline": "seconds that were given for something",
    "descriptors": "open files that this process may have",
    "detail": "what exactly, in words; `reason` is the kind",
    "end": "the upstream offset at which a log ends, as far as it is known",
    "errors": "Kafka error codes, by upstream partition",
    "exception": "a traceback",
    "generation": "generation of a group, downstream or upstream",
    "group": "downstream group id",
    "hash": "tells configurations apart",
    "holder": "who leases runs of offsets, by the name it gave itself",
    "in_flight": "records that were sent and not committed",
    "interceptor": "an interceptor, as the configuration names it",
    "lease": "the name of a range lease",
    "limit": "characters of commit metadata",
    "left_out": "how many entries like this one were left out before it, for they came too fast",
    "mechanism": "name of a SASL mechanism",
    "meanwhile": "what kafka-mesh does while a problem lasts",
    "member": "member id in its group",
    "members": "ids of members, the first few",
    "offset": "an upstream offset",
    "offsets": "a number of offsets",
    "on": "which way records go: produce or fetch",
    "operation": "what a client wanted to do, in Kafka's words",
    "node": "a broker of an upstream cluster, by its id",
    "partition": "number of a partition, or cluster/topic-number of an upstream one",
    "partitions": "a number of partitions",
    "path": "of a file",
    "pid": "number of a process of ours",
    "principal": "who a client is: User:NAME",
    "reason": "why, one of a fixed set where it is counted too",
    "received": "the upstream offset up to which a partition was received",
    "records": "a number of records",
    "resource": "name of what a client wanted to use",
    "router": "a router, as the configuration names it",
    "resource_type": "TOPIC, GROUP or CLUSTER",
    "role": "listen or coordinator",
    "route": "what a router has chosen",
    "seconds": "how long something has lasted",
    "signal": "name of a signal",
    "since": "when something began, as an ISO 8601 time",
    "slot": "number that identifies a member",
    "span": "FIRST..LAST, upstream offsets",
    "standing": "active, suspended in a rebalance, or absent: whether a partition is this process's",
    "start": "the upstream offset at which reading goes on",
    "topic": "name of a topic",
    "traceback": "a traceback as text; written as `exception`",
    "other": "a second upstream cluster, beside `cluster`",
    "problem": "kind of a problem with an upstream cluster, as in the metric of that name",
    "version": "version of kafka-mesh, or of a Kafka API",
    "virtual_cluster": "a virtual cluster, as the configuration names it",
    "waiting": "how many members wait",
}
"""Keys of log entries and what they mean."""

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["console", "json", "auto"]


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger for a module; may be made before `configure_logs`."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger


def configure_logs(level: Level = "info", format: Format = "auto", stream: TextIO | None = None) -> None:
    """Write everything from `level` up to `stream` (standard error), and nothing anywhere else.

    `auto`: for people if the stream is a terminal, else one JSON object a line.
    """
    stream = sys.stderr if stream is None else stream
    is_console = format == "console" or (format == "auto" and stream.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_secrets,
        _traceback,
        _printable,
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(allow=("cluster", "group")), *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *([] if is_console else [structlog.processors.format_exc_info]),
                _console(stream) if is_console else structlog.processors.JSONRenderer(default=str),
            ],
        )
    )
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(handlers=[handler], level=number, force=True)
    # They tell of every start and every request at the level info.
    for library in ("uvicorn", "asyncio"):
        logging.getLogger(library).setLevel(max(number, logging.WARNING))
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(number),
    )


def _console(stream: TextIO) -> structlog.dev.ConsoleRenderer:
    # Plain tracebacks: the pretty ones print all local variables, and with them the configuration's secrets.
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback, sort_keys=False
    )


def _without_secrets(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in entry.items():
        if is_secret_name(key):
            entry[key] = HIDDEN
        elif isinstance(value, Mapping):
            entry[key] = {name: HIDDEN if is_secret_name(str(name)) else each for name, each in value.items()}
    return entry


def _printable(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # Clients choose names; none of them may begin a new line, or talk to the terminal.
    for key, value in entry.items():
        if isinstance(value, str) and key != "exception" and not value.isprintable():
            entry[key] = value.encode("unicode_escape").decode()
    return entry


def _traceback(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # One that comes as text is rendered where those of exceptions are.
    if "traceback" in entry:
        entry["exception"] = entry.pop("traceback")
    return entry
