"""Structured logs: the message names the event, in words that never change; the keys hold the details.

The libraries' own logs go the same way. `VOCABULARY` has all keys, and a test checks that the code uses no others. So
one search finds everything about a group, a member or a connection.
"""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, Literal, TextIO

import structlog

from mesh.config.secrets import HIDDEN, is_secret_name
from mesh.telemetry.log_writer import LogWriter, ThreadedHandler

VOCABULARY: Final[Mapping[str, str]] = {
    "action": "action of an operator: settle, bury, release, replay, cancel a replay, move, cancel a move",
    "address": "HOST:PORT of this process",
    "api": "name of a Kafka API",
    "broker": "HOST:PORT of an upstream broker",
    "changes": "changes of the configuration, in words",
    "claimed": "the user name that a client claimed and did not prove",
    "client": "a client of librdkafka: admin, catalog, dead_letters, journal, store_reader, store_writer",
    "client_host": "the host that a client connects from",
    "client_id": "the client.id a client sent",
    "allowed": "the allowed values",
    "cluster": "an upstream cluster, as the configuration names it",
    "clusters": "upstream clusters, as the configuration names them",
    "connections": "client connections at the same time",
    "connection": "number of a client connection, unique in this process",
    "deadline": "the time limit, in seconds",
    "descriptors": "open files that this process may have",
    "detail": "more about `reason`, in words",
    "end": "the upstream offset at which a log ends, if known",
    "errors": "Kafka error codes, by upstream partition",
    "exception": "a traceback",
    "generation": "generation of a group, downstream or upstream",
    "group": "downstream group id",
    "hash": "hash of the configuration, without secrets",
    "holder": "the holder of a lease, by its own name",
    "in_flight": "records that were sent and not committed",
    "interceptor": "an interceptor, as the configuration names it",
    "issuer": "host and port of an issuer of tokens",
    "left": "offsets of a replay that are not acknowledged again yet",
    "lease": "the name of a range lease",
    "limit": "characters of commit metadata",
    "left_out": "number of similar entries left out before this one: they came too fast",
    "mechanism": "name of a SASL mechanism",
    "meanwhile": "what kafka-mesh does while a problem lasts",
    "member": "member id in its group",
    "members": "ids of members, the first few",
    "offset": "an upstream offset",
    "offsets": "a number of offsets",
    "on": "the side of an interceptor: produce or fetch",
    "operation": "the denied operation, in Kafka's words",
    "node": "a broker of an upstream cluster, by its id",
    "owner": "the kind of the part that a failed task belongs to",
    "producer_id": "the id that a cluster gave an idempotent producer",
    "partition": "number of a partition, or cluster/topic-number of an upstream one",
    "partitions": "a number of partitions",
    "path": "path of a file",
    "pid": "process id of a child process",
    "principal": "the principal of a client: User:NAME",
    "reason": "the cause; one of a fixed set if a metric counts it",
    "received": "the upstream offset up to which a partition was received",
    "records": "a number of records",
    "replay": "the id of a replay",
    "resource": "name of the denied resource",
    "router": "a router, as the configuration names it",
    "resource_type": "TOPIC, GROUP or CLUSTER",
    "role": "listen or coordinator",
    "route": "the route that a router chose",
    "seconds": "duration, in seconds",
    "signal": "name of a signal",
    "since": "begin, as an ISO 8601 time",
    "slot": "number that identifies a member",
    "span": "FIRST..LAST, upstream offsets",
    "standing": "active, suspended in a rebalance, or absent: whether a partition is this process's",
    "start": "the upstream offset at which the engine goes on",
    "task": "a task of the process; one of a fixed set",
    "topic": "name of a topic",
    "traceback": "a traceback as text; written as `exception`",
    "other": "a second upstream cluster, beside `cluster`",
    "problem": "kind of a problem with an upstream cluster, as in the metric of that name",
    "version": "version of kafka-mesh, or of a Kafka API",
    "virtual_cluster": "a virtual cluster, as the configuration names it",
    "waiting": "how many members wait",
    "worker": "number of one of several processes of a mesh",
}
"""Keys of log entries, and their meanings."""

_writer: LogWriter | None = None
Level = Literal["debug", "info", "warning", "error"]
Format = Literal["console", "json", "auto"]


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Returns the logger of a module. It may be called before `configure_logs`."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger


log = get_logger(__name__)


def configure_logs(level: Level = "info", format: Format = "auto", stream: TextIO | None = None) -> None:
    """Makes all entries from `level` up go to `stream`, and to no other place. Without a stream they go to standard
    error, and are written in a thread.

    format: `auto` writes for people if the stream is a terminal, otherwise one JSON object a line.
    """
    handler: logging.Handler = _threaded() if stream is None else logging.StreamHandler(stream)
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
    # Below level warning these libraries log every start and every request.
    for library in ("uvicorn", "asyncio"):
        logging.getLogger(library).setLevel(max(number, logging.WARNING))
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(number),
    )


def _threaded() -> ThreadedHandler:
    # The writer stays when the format changes.
    global _writer
    if _writer is None or _writer.stream is not sys.stderr:
        _writer = LogWriter(sys.stderr, report_left_out)
        atexit.register(_writer.flush)
    return ThreadedHandler(_writer)


def report_left_out(count: int) -> None:
    """Logs the number of entries that were left out."""
    log.warning("log entries left out", left_out=count)


def _console(stream: TextIO) -> structlog.dev.ConsoleRenderer:
    # Plain tracebacks: pretty ones print local variables, and with them the configuration's secrets.
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
    # Clients choose names. A name must not start a new line or send control characters to the terminal.
    for key, value in entry.items():
        if isinstance(value, str) and key != "exception" and not value.isprintable():
            entry[key] = value.encode("unicode_escape").decode()
    return entry


def _traceback(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # A traceback that is text is rendered like that of an exception.
    if "traceback" in entry:
        entry["exception"] = entry.pop("traceback")
    return entry
