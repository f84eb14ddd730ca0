"""Logs of librdkafka, in bounded amounts: without a bound it writes 45 lines a second for one client of a broker that
is down.

`SourceDown` and `CatalogUnreachable` report that a cluster is down. A client passes its lines to a logger when it is
polled; one that is not polled keeps them all.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable

AT_MOST_EVERY = 60.0
MOST_REMEMBERED = 1_000
CONNECTION_FACILITIES = frozenset({"CLOSE", "CONNECT", "DISCONNECT", "ERROR", "FAIL", "REQTMOUT", "TIMEOUT"})
"""Facilities of lines about connections. Errors with a callback have the facility ERROR."""
_NUMBER = re.compile(r"\d+")


class LibrdkafkaLog:
    """A logger for clients of librdkafka (`logger`); it may be called from any thread.

    Connection failures are logged at the level debug, everything else at most as a warning. The same line is logged
    once in `AT_MOST_EVERY` seconds; lines that differ only in numbers count as the same. names: fields of each line.
    """

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic, **names: str) -> None:
        self._logger = logger
        self._clock = clock
        self._names = names
        self._lock = threading.Lock()
        self._written: dict[str, float] = {}
        """The last time each line was written, oldest first."""

    def named(self, cluster: str, group: str = "") -> LibrdkafkaLog:
        """Returns a logger for a client of that cluster, in that upstream group."""
        return LibrdkafkaLog(self._logger, self._clock, cluster=cluster, **({"group": group} if group else {}))

    def log(self, level: int, template: str, *arguments: object) -> None:
        """Logs a line. confluent-kafka calls it with the line's facility as the first argument."""
        if level <= logging.DEBUG or (arguments[:1] and arguments[0] in CONNECTION_FACILITIES):
            self._logger.debug(template, *arguments, extra=self._names)
        elif self._note_line(template % arguments):
            self._logger.log(min(level, logging.WARNING), template, *arguments, extra=self._names)

    def _note_line(self, line: str) -> bool:
        line, now = _NUMBER.sub("#", line), self._clock()
        with self._lock:
            if now - self._written.get(line, -AT_MOST_EVERY) < AT_MOST_EVERY:
                return False
            self._written.pop(line, None)
            self._written[line] = now
            if len(self._written) > MOST_REMEMBERED:
                del self._written[next(iter(self._written))]
            return True


LOG = LibrdkafkaLog(logging.getLogger("librdkafka"))
