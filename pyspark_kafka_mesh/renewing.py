"""The lease of the batch that runs is renewed as long as the driver's process lives."""

from __future__ import annotations

import threading

from pyspark_kafka_mesh.client import Client, LeaseLost, MeshRefused, MeshUnavailable
from pyspark_kafka_mesh.offsets import Offset

INTERVAL = 10.0
"""Seconds; far less than the two minutes that a mesh which was restarted waits for it."""


class Renewing:
    """A thread of its own: batches may take longer than leases. That one was lost is told before it is acknowledged."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._current: Offset | None = None
        self._lost: tuple[Offset, LeaseLost] | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def renew(self, offset: Offset) -> None:
        self._current = offset
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-mesh leases", daemon=True)
            self._thread.start()

    def forget(self, offset: Offset) -> None:
        if self._current is not None and self._current.lease == offset.lease:
            self._current = None

    def raise_if_lost(self, offset: Offset) -> None:
        """Others may be through with what they were given of it: acknowledging it again would not tell. Raises
        LeaseLost."""
        if self._lost is not None and self._lost[0].lease == offset.lease:
            raise self._lost[1]

    def stop(self) -> None:
        self._stopped.set()

    def once(self) -> None:
        """Renew what is read now, if anything is."""
        offset = self._current
        if offset is not None:
            try:
                self._client.renew(offset)
            except LeaseLost as lost:
                self._lost = offset, lost
                self.forget(offset)
            except (MeshUnavailable, MeshRefused):
                return  # the next call that Spark waits for will say so

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL):
            self.once()
