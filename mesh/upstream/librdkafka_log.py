"""What librdkafka logs, in bounded amounts: 45 lines a second for one client of a broker that is down, left alone.

That a cluster is down is told by `SourceDown` and `CatalogUnreachable`. Its clients give their lines to a logger when
they are polled: one that nobody polls keeps them all.
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
"""What begins lines about connections; ERROR has what is told by a callback where there is one."""
_NUMBER = re.compile(r"\d+")


class LibrdkafkaLog:
    """To be given to clients as `logger`; may be called from any thread.

    Connection failures are written at the level debug, all else at that of a warning at most, once in `AT_MOST_EVERY`
    seconds; lines that differ in numbers only are the same. names: what stands beside each line.
    """

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic, **names: str) -> None:
        self._logger = logger
        self._clock = clock
        self._names = names
        self._lock = threading.Lock()
        self._written: dict[str, float] = {}
        """When each line was written last, the oldest first."""

    def named(self, cluster: str, group: str = "") -> LibrdkafkaLog:
        """One for a client of that cluster, in that upstream group."""
        return LibrdkafkaLog(self._logger, self._clock, cluster=cluster, **({"group": group} if group else {}))

    def log(self, level: int, template: str, *arguments: object) -> None:
        """confluent-kafka calls this with the facility, which says what it is about, as the first argument."""
        if level <= logging.DEBUG or (arguments[:1] and arguments[0] in CONNECTION_FACILITIES):
            self._logger.debug(template, *arguments, extra=self._names)
        elif self._is_new(template % arguments):
            self._logger.log(min(level, logging.WARNING), template, *arguments, extra=self._names)

    def _is_new(self, line: str) -> bool:
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
