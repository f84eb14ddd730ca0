"""Renews the lease of the current batch as long as the driver's process lives."""

from __future__ import annotations

import threading

from pyspark_kafka_mesh.client import Client, LeaseLost, MeshRefused, MeshUnavailable
from pyspark_kafka_mesh.offsets import Offset

INTERVAL = 10.0
"""Seconds between renewals: far less than the two minutes for which a restarted mesh holds leases."""


class Renewing:
    """A thread that renews leases, since batches may take longer than leases. It reports a lost lease before its batch
    is acknowledged."""

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
        """Raises LeaseLost if the lease was lost. An acknowledgement would not show that others have processed its
        records."""
        if self._lost is not None and self._lost[0].lease == offset.lease:
            raise self._lost[1]

    def stop(self) -> None:
        self._stopped.set()

    def once(self) -> None:
        """Renews the lease that is being read, if there is one."""
        offset = self._current
        if offset is not None:
            try:
                self._client.renew(offset)
            except LeaseLost as lost:
                self._lost = offset, lost
                self.forget(offset)
            except (MeshUnavailable, MeshRefused):
                return  # the next call that Spark waits for reports it

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL):
            self.once()
