"""Keeps the delivery journal: collects the events of pools in pages for a topic (docs/journal.md).

Nothing here waits. A page goes to its writer when it is old or full. While the allowed number of events is in flight,
new events are dropped, and the next written page has their number.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from mesh.journal.pages import Page
from mesh.pool.common.delivery_events import DeliveryEvent
from mesh.tasks import OwnedTask, TaskName, guarded
from mesh.telemetry.metrics import Metrics

FULL: Final = 5_000
"""The number of events that fill a page. Such a page is far below a megabyte."""


class Writer(Protocol):
    """Writes pages in their order. `ended` is called on the event loop for each page: with True if it was written."""

    def write(
        self, page: Page, dropped: int, dropped_since: int, is_last: bool, ended: Callable[[bool], None]
    ) -> None: ...

    def change_login(self, username: str, password: str) -> None: ...

    async def close(self) -> None: ...


class DeliveryLog(Protocol):
    """A receiver of the delivery events of all pools."""

    def add(self, virtual_cluster: str, event: DeliveryEvent) -> None: ...


class DeliveryLogs:
    """Several receivers of delivery events as one."""

    def __init__(self, logs: Iterable[DeliveryLog]) -> None:
        self._logs = tuple(logs)

    def add(self, virtual_cluster: str, event: DeliveryEvent) -> None:
        for each in self._logs:
            each.add(virtual_cluster, event)


class Journal:
    """The journal of this process: collects events and writes pages. interval: seconds until a page is written that is
    not full. limit: the most events that may be in flight."""

    def __init__(
        self, writer: Writer, metrics: Metrics, loop: asyncio.AbstractEventLoop, interval: float, limit: int
    ) -> None:
        self._writer = writer
        self._metrics = metrics
        metrics.journal(0, "dropped")  # alerts need the series to rise from 0
        self._loop = loop
        self._interval = interval
        self._limit = limit
        self._page: Page | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._under_way = 0
        self._dropped = 0
        self._dropped_since = 0

    def add(self, virtual_cluster: str, event: DeliveryEvent) -> None:
        now = time.time_ns() // 1_000_000
        page = self._page
        if self._under_way + (len(page) if page is not None else 0) >= self._limit:
            self._drop(1, now)
            return
        if page is None:
            page = self._page = Page(now)
            self._timer = self._loop.call_later(self._interval, guarded(OwnedTask(TaskName.JOURNAL), self.flush))
        source, holder = event.partition, event.holder
        page.add(
            event.kind.value,
            now,
            (virtual_cluster, event.group),
            (source.cluster, source.topic, source.partition),
            (holder.member, holder.client_id, holder.host, holder.lease),
            event.first,
            event.last,
            event.deliveries,
            event.produced,
        )
        if len(page) >= FULL:
            self.flush()

    def flush(self) -> None:
        """Gives the open page to the writer."""
        if self._page is not None:
            self._write(self._page, is_last=False)

    def change_login(self, username: str, password: str) -> None:
        """Uses this user name and password for SASL from the next connection on."""
        self._writer.change_login(username, password)

    async def close(self) -> None:
        """Closes the journal: writes a last page, marked as such, and waits for a while until it is written."""
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
        # A page that fails is older than events that were dropped after it.
        self._dropped_since = min(self._dropped_since, since) if self._dropped else since
        self._dropped += count
        self._metrics.journal(counted, "dropped")
