"""Spans and metrics by OTLP, if they are configured. Only then the packages of the extra `otlp` are imported."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from mesh.config.model import Config
from mesh.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from mesh.telemetry.otlp.exporting import Collector
    from mesh.telemetry.otlp.tracing import Tracing


class Exporting:
    """The export of spans and metrics by OTLP. spans: receives delivery events, None if no spans are sent.
    batch_every: as in `PoolSettings`."""

    def __init__(self, config: Config) -> None:
        self._configured = configured = config.otlp
        self._instance: Final = config.process_id or uuid4().hex
        self.spans: Tracing | None = None
        self.batch_every = 0
        if configured is not None and configured.spans is not None:
            from mesh.telemetry.otlp.tracing import Tracing

            self.batch_every = configured.spans.links_one_in
            self.spans = Tracing(self._collector(), configured.spans.one_in, configured.spans.limit)

    @property
    def sends_metrics(self) -> bool:
        return self._configured is not None and self._configured.metrics is not None

    async def keep_sending(self, metrics: Metrics) -> None:
        """Sends metrics until it is cancelled. Called only if they are to be sent."""
        from mesh.telemetry.otlp.metrics import keep_sending

        assert self._configured is not None and self._configured.metrics is not None
        await keep_sending(metrics.families, self._collector(), self._configured.metrics.interval)

    async def close(self) -> None:
        """Waits a few seconds until the last spans are sent."""
        if self.spans is not None:
            await asyncio.to_thread(self.spans.close)

    def _collector(self) -> Collector:
        from mesh.telemetry.otlp.exporting import Collector

        assert self._configured is not None, "asked where it is configured only"
        found = self._configured
        return Collector(found.endpoint, found.headers, found.ca_file, found.timeout, self._instance)
