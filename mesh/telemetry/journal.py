"""Keeps the delivery journal: from the notes of pools to pages for a topic (docs/journal.md).

Nothing here waits. A page is given to its writer when it is old or full; while as many events as are allowed are on
their way, new ones are dropped, and how many that were stands in the next page that is written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from mesh.journal.pages import Page
from mesh.pool.common.delivery_events import DeliveryEvent
from mesh.telemetry.metrics import Metrics

FULL: Final = 5_000
"""Events of one page; it is far below a megabyte then."""


class Writer(Protocol):
    """Writes pages in the order in which it is given them; `ended` is told of each on the event loop whether it was
    written."""

    def write(
        self, page: Page, dropped: int, dropped_since: int, is_last: bool, ended: Callable[[bool], None]
    ) -> None: ...

    async def close(self) -> None: ...


class Journal:
    """The journal of this process: collects events and writes pages. interval: seconds until a page is written that is
    not full. limit: events that may be on their way."""

    def __init__(
        self, writer: Writer, metrics: Metrics, loop: asyncio.AbstractEventLoop, interval: float, limit: int
    ) -> None:
        self._writer = writer
        self._metrics = metrics
        metrics.journal(0, "dropped")  # an alert sees it rise from there
        self._loop = loop
        self._interval = interval
        self._limit = limit
        self._page: Page | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._under_way = 0
        self._dropped = 0
        self._dropped_since = 0

    def add(self, virtual_cluster: str, note: DeliveryEvent) -> None:
        now = time.time_ns() // 1_000_000
        page = self._page
        if self._under_way + (len(page) if page is not None else 0) >= self._limit:
            self._drop(1, now)
            return
        if page is None:
            page = self._page = Page(now)
            self._timer = self._loop.call_later(self._interval, self.flush)
        source, holder = note.partition, note.holder
        page.add(
            note.kind.value,
            now,
            (virtual_cluster, note.group),
            (source.cluster, source.topic, source.partition),
            (holder.member, holder.client_id, holder.host, holder.lease),
            note.first,
            note.last,
            note.deliveries,
            note.produced,
        )
        if len(page) >= FULL:
            self.flush()

    def flush(self) -> None:
        """Let what there is be written."""
        if self._page is not None:
            self._write(self._page, is_last=False)

    async def close(self) -> None:
        """Nothing comes any more: say so in a last page, and wait until it is written, for a while."""
        self._write(self._page or Page(time.time_ns() // 1_000_000), is_last=True)
        await self._writer.close()

    def _write(self, page: Page, is_last: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._page = self._timer = None
        count, dropped, since = len(page), self._dropped, self._dropped_since
        self._dropped = self._dropped_since = 0
        self._under_way += count

        def ended(is_written: bool) -> None:
            self._under_way -= count
            if is_written:
                self._metrics.journal(count, "written")
            else:
                self._drop(count + dropped, since or page.begun, counted=count)

        self._writer.write(page, dropped, since, is_last, ended)

    def _drop(self, count: int, since: int, counted: int = 1) -> None:
        if not self._dropped:
            self._dropped_since = since
        self._dropped += count
        self._metrics.journal(counted, "dropped")
