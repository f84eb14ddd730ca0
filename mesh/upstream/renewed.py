"""Clients of librdkafka that are made again when files in their properties change: librdkafka reads them only once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from confluent_kafka import KafkaException

from mesh.files import Signature, signature_of

INTERVAL: Final = 2.0
"""Seconds between two looks at the files."""
_FILES: Final = (
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location"),
    "ssl.keystore.location",
)

Client = TypeVar("Client")


class Renewed(Generic[Client]):
    """A client of librdkafka without a group, used by one thread. current: the client; None before the first `get`.

    make: makes a client. retire: called with a client after its replacement.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        make: Callable[[], Client],
        retire: Callable[[Client], object] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.current: Client | None = None
        self._paths = [path for name in _FILES if (path := properties.get(name))]
        self._make = make
        self._retire = retire
        self._clock = clock
        self._seen: Signature | None = None
        self._look_at = 0.0

    def get(self) -> Client:
        """Returns the client. If a changed file cannot be used, that is the old client, and a later call tries again.
        Raises the errors of `make` if there is no client yet."""
        now, current = self._clock(), self.current
        if current is not None and (now < self._look_at or (not self._paths and self._seen is not None)):
            return current
        self._look_at = now + INTERVAL
        seen = signature_of(self._paths)
        if current is not None and seen == self._seen:
            return current
        try:
            made = self._make()
        except KafkaException:
            if current is None:
                raise
            return current
        self.current, self._seen = made, seen
        if current is not None:
            self._retire(current)
        return made

    def renew(self) -> None:
        """Lets the next call of `get` make a client, although no file has changed. If it cannot, the old one stays."""
        self._seen, self._look_at = None, 0.0

    def forget(self) -> None:
        """Forgets the client; the next call of `get` makes one."""
        self.current = None
