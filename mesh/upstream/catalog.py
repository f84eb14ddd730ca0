"""The catalog of an upstream cluster: its topics, and how many partitions each has. It is refreshed periodically."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from mesh.records.spans import ClusterName, TopicName
from mesh.tasks import OwnedTask, TaskName
from mesh.thread_tasks import ThreadTask
from mesh.upstream.events import EventChannel
from mesh.upstream.librdkafka_log import LOG
from mesh.upstream.librdkafka_properties import connection_properties
from mesh.upstream.problems import ProblemCause, UpstreamProblem, problem_of
from mesh.upstream.renewed import Renewed

REQUEST_TIMEOUT = 5.0
SHORTEST_INTERVAL = 1.0
CONNECTS_ANEW = 60.0
"""Seconds after which a look uses a new connection. Brokers keep open connections after the end of a certificate, and
after a password was changed, so only a new one shows whether the cluster still accepts the mesh's login."""
SHORTEST_LIFE = 5.0
"""The least seconds between two new connections, however often they are asked for."""
INTERNAL = "__"
"""The prefix of Kafka's own topics."""


@dataclass(frozen=True, slots=True)
class CatalogUpdate:
    """All topics of a cluster, with their partition counts. Reported at first, and when something changed."""

    cluster: ClusterName
    topics: Mapping[TopicName, int]


@dataclass(frozen=True, slots=True)
class CatalogUnreachable:
    """The cluster did not answer. Reported once, and again if the problem changes, until the cluster answers."""

    cluster: ClusterName
    reason: str
    problem: UpstreamProblem = UpstreamProblem.UNREACHABLE


CatalogEvent: TypeAlias = CatalogUpdate | CatalogUnreachable


class TopicCatalog:
    """The topics of one upstream cluster, refreshed periodically. interval: seconds between two refreshes, which may
    change. `deliver` is called on `loop`'s thread."""

    def __init__(
        self,
        cluster: ClusterName,
        bootstrap_servers: str,
        properties: Mapping[str, Any],
        interval: float,
        deliver: Callable[[CatalogEvent], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._cluster = cluster
        self.interval = interval
        self._task = ThreadTask(OwnedTask(TaskName.CATALOG, cluster=cluster), loop)
        self._channel: EventChannel[CatalogEvent] = EventChannel(loop, deliver, self._not_taken)
        self._properties: dict[str, Any] = {
            **connection_properties({**properties, "bootstrap.servers": bootstrap_servers}),
            "error_cb": self._complain,
            "logger": LOG.named(cluster),
        }
        self._refresh_requested = threading.Event()
        self._connects_at = 0.0
        """When the next look makes a new connection."""
        self._connected_at = 0.0
        self._closed = False
        self._known: Mapping[TopicName, int] | None = None
        self._unreachable: UpstreamProblem | None = None
        self._is_lost = False
        """True if the last event was lost, so that it must be reported again."""
        self._cause = ProblemCause()
        threading.Thread(target=self._run, name=f"catalog of {cluster}", daemon=True).start()

    def refresh_soon(self) -> None:
        """Refreshes the topics soon, at most once a second."""
        self._refresh_requested.set()

    def connect_soon(self) -> None:
        """Refreshes the topics soon, over a new connection, at most once in `SHORTEST_LIFE` seconds."""
        self._connects_at = self._connected_at + SHORTEST_LIFE
        self._refresh_requested.set()

    def close(self) -> None:
        self._task.ended()
        self._closed = True
        self._channel.close()
        self._refresh_requested.set()

    def _run(self) -> None:
        admins = Renewed("catalog", self._properties, lambda: AdminClient(self._properties))
        while not self._closed:
            began = time.monotonic()
            try:
                self._report(self._topics(self._client(admins, began)))
            except KafkaException as problem:
                if admins.current is not None:
                    admins.current.poll(0)  # delivers the errors, which say more than a timeout
                self._complain(problem.args[0])
                self._report_unreachable()
            except BaseException as problem:  # noqa: BLE001 - reported, and tried again with a new client
                admins.forget()
                self._task.failed(problem, SHORTEST_INTERVAL)
                self._cause.add(UpstreamProblem.UNREACHABLE, f"kafka-mesh failed: {problem!r}")
                self._report_unreachable()
            self._refresh_requested.wait(self.interval if self._unreachable is None else SHORTEST_INTERVAL)
            rest = began + SHORTEST_INTERVAL - time.monotonic()
            if rest > 0 and not self._closed:
                time.sleep(rest)
            if not self._closed:
                # Not cleared before: a refresh that was requested during the last look may need another one.
                self._refresh_requested.clear()

    def _not_taken(self, problem: BaseException) -> None:
        """Reports that an event was not taken. The next look reports it again."""
        self._is_lost = True
        self._task.failed(problem, self.interval)

    def _client(self, admins: Renewed[AdminClient], now: float) -> AdminClient:
        before = admins.current
        if now >= self._connects_at:
            admins.renew()
        if (client := admins.get()) is not before:
            self._connected_at, self._connects_at = now, now + CONNECTS_ANEW
        return client

    def _topics(self, admin: AdminClient) -> dict[TopicName, int]:
        admin.poll(0)  # otherwise its log lines pile up
        metadata = admin.list_topics(timeout=REQUEST_TIMEOUT)
        return {
            TopicName(name): len(topic.partitions)
            for name, topic in metadata.topics.items()
            if not name.startswith(INTERNAL) and topic.error is None
        }

    def _complain(self, error: KafkaError) -> None:
        self._cause.add(problem_of(error) or UpstreamProblem.UNREACHABLE, error.str(), error.code())

    def _report_unreachable(self) -> None:
        if self._unreachable is None or self._unreachable is not self._cause.problem:
            self._unreachable = self._cause.problem
            self._channel.put(CatalogUnreachable(self._cluster, self._cause.reason, self._cause.problem))
        self._cause.clear()

    def _report(self, topics: dict[TopicName, int]) -> None:
        was_lost, self._is_lost = self._is_lost, False
        if was_lost or self._unreachable is not None or topics != self._known:
            self._channel.put(CatalogUpdate(self._cluster, topics))
        else:
            self._task.works()
        self._known, self._unreachable = topics, None
        self._cause.clear()
