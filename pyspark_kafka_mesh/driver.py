"""The driver's side: its answers to Spark's calls. docs/decisions/0022 and the tests show the order of these calls."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from pyspark_kafka_mesh.client import Client, MeshRefused, MeshUnavailable
from pyspark_kafka_mesh.offsets import Offset
from pyspark_kafka_mesh.renewing import Renewing


class Driver:
    """The driver of one run of a query. initial: the same each time, since Spark asks twice."""

    def __init__(self, client: Client, renewing: Renewing) -> None:
        self._client = client
        self._renewing = renewing
        self._known: str | None = None
        self._acknowledged: str | None = None
        self._ends: Sequence[dict[str, Any]] | None = None
        self.initial = Offset(uuid.uuid4().hex)

    def stop_at_the_end(self) -> None:
        """Takes the current ends as limits of this run."""
        self._ends = self._client.ends()

    def after(self, start: Offset, most: int | None) -> Offset:
        """Returns the offset after `start`. Spark asks for more only when the batch at `start` is done."""
        self.acknowledge(start)
        offset = self._client.lease(start, most, self._ends)
        if offset is not start:
            self._known = offset.lease
            self._renewing.renew(offset)
        return offset

    def acknowledge(self, offset: Offset) -> None:
        if offset.lease is not None and offset.lease != self._acknowledged:
            self._renewing.raise_if_lost(offset)
            self._client.acknowledge(offset)
            self._acknowledged = offset.lease
            self._renewing.forget(offset)

    def hold(self, end: Offset) -> None:
        """Notes that a batch is about to be read. If an earlier run of this query planned it, claims its lease."""
        if end.lease != self._known:
            self._client.claim(end)
            self._known = end.lease
            self._renewing.renew(end)

    def backlog(self) -> dict[str, int] | None:
        """Returns the backlog for the query's progress; a failure is ignored."""
        try:
            return self._client.backlog()
        except (MeshUnavailable, MeshRefused):
            return None

    def stop(self) -> None:
        """Stops renewing. Leases stay, since the next run of this query continues with them."""
        self._renewing.stop()
