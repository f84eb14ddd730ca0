"""Clients of librdkafka that are made again when files in their properties change: librdkafka reads them only once."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import structlog
from confluent_kafka import KafkaException

from mesh.files import Signature, signature_of
from mesh.upstream.property_files import FILES, check_files

log = structlog.get_logger(__name__)

INTERVAL: Final = 2.0
"""Seconds between two looks at the files."""
FAILURES: Final[Counter[str]] = Counter()
"""The number of attempts to make a client that failed, by the clients' name."""

Client = TypeVar("Client")


class Renewed(Generic[Client]):
    """A client of librdkafka without a group, used by one thread. current: the client; None before the first `get`.

    name: that of the client in logs and metrics. make: makes a client from the properties. retire: called with a client
    after its replacement.
    """

    def __init__(
        self,
        name: str,
        properties: dict[str, Any],
        make: Callable[[], Client],
        retire: Callable[[Client], object] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.current: Client | None = None
        self._name = name
        self._reason = ""
        """The reason of the last attempt that failed."""
        self._properties = properties
        self._logins: deque[tuple[str, str]] = deque(maxlen=1)
        """The user name and password that the client does not have yet."""
        self._paths = [path for name in FILES if (path := properties.get(name))]
        self._make = make
        self._retire = retire
        self._clock = clock
        self._seen: Signature | None = None
        self._look_at = 0.0

    def get(self) -> Client:
        """Returns the client. If a changed file cannot be used, that is the old client, and a later call tries again.
        Raises the errors of `make` if there is no client yet."""
        now, current = self._clock(), self.current
        while self._logins:
            self._take(current, *self._logins.popleft())
        if current is not None and (now < self._look_at or (not self._paths and self._seen is not None)):
            return current
        self._look_at = now + INTERVAL
        seen = signature_of(self._paths)
        if current is not None and seen == self._seen:
            return current
        try:
            check_files(self._properties)
            made = self._make()
        except KafkaException as problem:
            self._failed(problem.args[0].str())
            if current is None:
                raise
            return current
        self.current, self._seen, self._reason = made, seen, ""
        if current is not None:
            self._retire(current)
        return made

    def renew(self) -> None:
        """Lets the next call of `get` make a client, although no file has changed. If it cannot, the old one stays."""
        self._seen, self._look_at = None, 0.0

    def change_login(self, username: str, password: str) -> None:
        """Uses this user name and password for SASL from the next connection on. May be called from any thread: the
        next `get` passes it on, since a consumer makes another thread wait while it is polled."""
        self._properties |= {"sasl.username": username, "sasl.password": password}
        self._logins.append((username, password))

    @staticmethod
    def _take(client: Any, username: str, password: str) -> None:
        if client is not None:
            client.set_sasl_credentials(username, password)

    def _failed(self, reason: str) -> None:
        """Counts an attempt that failed, and logs each new reason."""
        FAILURES[self._name] += 1
        if reason != self._reason:
            self._reason = reason
            meanwhile = "the earlier client stays in use" if self.current is not None else "nothing can be sent"
            log.warning("upstream client not made", client=self._name, reason=reason, meanwhile=meanwhile)

    def forget(self) -> None:
        """Forgets the client; the next call of `get` makes one."""
        self.current = None
