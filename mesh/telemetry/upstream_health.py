"""The health of upstream clusters, for logs, metrics and /readyz.

There is one log entry when a problem begins, a reminder every `REMINDER` seconds, and one entry at its end. That holds
no matter how often the problem is reported, and by how many reporters. A problem is over when nothing has reported it
for `SETTLED` seconds: the clients of a cluster find out at different times that it is back. A problem of a whole
cluster (unreachable, refused credentials, ...) is one problem, which ends when no client reports it any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from mesh.telemetry.logs import get_logger
from mesh.telemetry.metric_definitions import UPSTREAM_PROBLEM_SECONDS, UPSTREAM_UP, MetricSample
from mesh.upstream.problems import CONNECTION, UpstreamProblem

log = get_logger(__name__)

REMINDER = 300.0
SETTLED = 8.0
REMIND_INTERVAL = 1.0
"""Seconds between two calls of `remind`."""


@dataclass(frozen=True, slots=True)
class _Words:
    """The words for a problem: the event of its beginning, what kafka-mesh does while it lasts, and the event of its
    end."""

    event: str
    meanwhile: str
    over: str


_WAITS = (
    "no records come from its partitions; other clusters are served; a pool stores acknowledgements for it when it is "
    "back, and behind a relay or a router its nodes look down"
)
_USABLE = "upstream cluster usable again"
WORDS: Final[Mapping[UpstreamProblem, _Words]] = {
    UpstreamProblem.UNREACHABLE: _Words("upstream cluster unreachable", _WAITS, _USABLE),
    UpstreamProblem.ADDRESS: _Words("upstream address not resolved", _WAITS, _USABLE),
    UpstreamProblem.CREDENTIALS: _Words("upstream credentials refused", _WAITS, _USABLE),
    UpstreamProblem.ENCRYPTION: _Words("upstream TLS handshake failed", _WAITS, _USABLE),
    UpstreamProblem.PROPERTIES: _Words("upstream client properties refused", _WAITS, _USABLE),
    UpstreamProblem.NOT_AUTHORIZED: _Words(
        "upstream authorization failed",
        "the group gets no records of topics that it may not read; other topics are served; commits wait until they "
        "are stored",
        "upstream authorization granted again",
    ),
    UpstreamProblem.FENCED: _Words(
        "process_id in use by another process",
        "the other process serves that group's partitions of this cluster; this one stays out until the other has "
        "left. Give each process its own process_id",
        "process_id no longer in use by another process",
    ),
    UpstreamProblem.ASSIGNOR: _Words(
        "upstream group uses another assignor",
        "the group gets no records of this cluster; other groups are served",
        "upstream group joinable again",
    ),
    UpstreamProblem.TOPIC_MISSING: _Words(
        "upstream topic missing or not visible",
        "the other sources of its topic are read; the mesh keeps looking for it",
        "upstream topic found again",
    ),
    UpstreamProblem.COMMITS: _Words(
        "upstream commits failing",
        "members get records; the mesh answers members' commits with COORDINATOR_LOAD_IN_PROGRESS, which they retry",
        "upstream commits stored again",
    ),
    UpstreamProblem.UNREADABLE: _Words(
        "upstream partitions unreadable",
        "no records come from them; other partitions are served; the mesh stores acknowledgements of earlier records",
        "upstream partitions readable again",
    ),
    UpstreamProblem.ENGINE_FAILED: _Words(
        "engine failed: bug in kafka-mesh",
        "a new engine starts; unacknowledged records of its group are delivered again; other groups are served",
        "engine works again",
    ),
    UpstreamProblem.NODE_WITHOUT_ADDRESS: _Words(
        "broker without an address for clients",
        "clients see neither that node nor its partitions' leaders; all other nodes are served",
        "every broker has an address for clients",
    ),
    UpstreamProblem.GROUP_ELSEWHERE: _Words(
        "group has members outside its home cluster",
        "these members consume there directly, and the mesh answers commits for that cluster through its union with "
        "COORDINATOR_LOAD_IN_PROGRESS, which members retry",
        "group has no members outside its home cluster any more",
    ),
    UpstreamProblem.TOPIC_WIDTH: _Words(
        "part of a concatenated topic has another number of partitions than declared",
        "every partition keeps its number: clients see those that are missing without leaders, and none beyond the "
        "declared width",
        "part of a concatenated topic has as many partitions as declared",
    ),
}


@dataclass(frozen=True, slots=True)
class ProblemKey:
    """The subject of a problem. problem: None for all of `CONNECTION`, since a cluster has at most one of these."""

    problem: UpstreamProblem | None
    cluster: str
    virtual_cluster: str = ""
    group: str = ""
    topic: str = ""


@dataclass(slots=True)
class OpenProblem:
    """A problem that has not ended, or has ended only lately. began, logged_at, ended: seconds on the clock. since: the
    time of day."""

    key: ProblemKey
    problem: UpstreamProblem
    reason: str
    began: float
    logged_at: float
    since: datetime
    reporters: set[tuple[str, str, str]] = field(default_factory=set)
    ended: float | None = None

    @property
    def fields(self) -> dict[str, str]:
        """Returns the subject as fields of a log entry."""
        key = self.key
        named = {"cluster": key.cluster, "virtual_cluster": key.virtual_cluster, "group": key.group, "topic": key.topic}
        return {name: value for name, value in named.items() if value}


class UpstreamHealth:
    """The present problems with upstream clusters, and their reporters. clusters: all existing ones; may change.
    Everything runs on the event loop's thread."""

    def __init__(self, clusters: tuple[str, ...], clock: Callable[[], float] = time.monotonic) -> None:
        self.clusters = clusters
        self._clock = clock
        self._open: dict[ProblemKey, OpenProblem] = {}
        self._reached: set[str] = set()

    def begin(
        self,
        problem: UpstreamProblem,
        cluster: str,
        reason: str,
        *,
        virtual_cluster: str = "",
        group: str = "",
        topic: str = "",
        traceback: str = "",
        part: str = "",
        is_news: bool = False,
    ) -> None:
        """Begins a problem, or reports again that it lasts.

        `virtual_cluster` and `group` name the reporter of a problem of a whole cluster; both are "" for the catalog.
        part: a part of an engine that reports by itself. is_news: True to log a known problem again, because its
        subject has changed.
        """
        key = self._key(problem, cluster, virtual_cluster, group, topic)
        now = self._clock()
        open_problem = self._open.get(key)
        if open_problem is None:
            open_problem = self._open[key] = OpenProblem(key, problem, reason, now, now, datetime.now(UTC))
            self._log(open_problem, now, traceback)
        elif (
            traceback or is_news or (problem is not open_problem.problem and problem is not UpstreamProblem.UNREACHABLE)
        ):
            # The problem is now known more exactly, or is another one.
            open_problem.problem, open_problem.reason, open_problem.logged_at = problem, reason, now
            self._log(open_problem, now, traceback)
        open_problem.ended = None
        open_problem.reporters.add((virtual_cluster, group, part))

    def end(
        self,
        problem: UpstreamProblem,
        cluster: str,
        *,
        virtual_cluster: str = "",
        group: str = "",
        topic: str = "",
        part: str = "",
    ) -> None:
        """Ends a problem for one reporter."""
        key = self._key(problem, cluster, virtual_cluster, group, topic)
        if problem in CONNECTION:
            self._reached.add(cluster)
        open_problem = self._open.get(key)
        if open_problem is None:
            return
        open_problem.reporters.discard((virtual_cluster, group, part))
        if not open_problem.reporters and open_problem.ended is None:
            open_problem.ended = self._clock()

    def forget_group(self, virtual_cluster: str, group: str, cluster: str | None = None) -> None:
        """Forgets a group whose pool has ended, or has left one cluster. Its own problems no longer matter, and it
        reports no others."""
        for key, open_problem in list(self._open.items()):
            if cluster not in (None, key.cluster):
                continue
            open_problem.reporters = {each for each in open_problem.reporters if each[:2] != (virtual_cluster, group)}
            if not open_problem.reporters and open_problem.ended is None:
                del self._open[key]

    def forget_cluster(self, cluster: str) -> None:
        """Forgets a cluster that is gone, or that another cluster of the same name has replaced."""
        self._reached.discard(cluster)
        for key in [key for key in self._open if key.cluster == cluster]:
            del self._open[key]

    def has_reached(self, cluster: str) -> bool:
        """True if the cluster could be used at any time so far."""
        return cluster in self._reached

    def connection(self, cluster: str) -> OpenProblem | None:
        """Returns the problem that makes a cluster unusable; None if there is none."""
        open_problem = self._open.get(ProblemKey(None, cluster))
        return open_problem if open_problem is not None and open_problem.ended is None else None

    def remind(self) -> None:
        """Logs problems that ended, and repeats those last logged `REMINDER` seconds ago."""
        now = self._clock()
        for key, open_problem in list(self._open.items()):
            if open_problem.ended is not None:
                if now - open_problem.ended >= SETTLED:
                    del self._open[key]
                    lasted = round(open_problem.ended - open_problem.began, 1)
                    over, problem = WORDS[open_problem.problem].over, open_problem.problem.value
                    log.info(over, problem=problem, seconds=lasted, **open_problem.fields)
            elif now - open_problem.logged_at >= REMINDER:
                open_problem.logged_at = now
                self._log(open_problem, now)

    async def keep_reminding(self) -> None:
        """Calls `remind` every `REMIND_INTERVAL` seconds until cancelled."""
        while True:
            await asyncio.sleep(REMIND_INTERVAL)
            self.remind()

    # For /readyz and metrics

    def blocking(self) -> list[str]:
        """The reasons why clients should go to another process; empty if there are none."""
        fenced = [each for each in self._lasting() if each.problem is UpstreamProblem.FENCED]
        return [f"{WORDS[each.problem].event}: {each.reason} (cluster {each.key.cluster})" for each in fenced]

    def described(self) -> list[dict[str, object]]:
        """Returns the present problems, the oldest first, with the same keys and words as in the log."""
        now = self._clock()
        return [
            {
                "what": WORDS[each.problem].event,
                "problem": each.problem.value,
                **each.fields,
                "reason": each.reason,
                "since": each.since.isoformat(timespec="seconds"),
                "seconds": round(now - each.began, 1),
                "meanwhile": WORDS[each.problem].meanwhile,
            }
            for each in sorted(self._lasting(), key=lambda open_problem: open_problem.began)
        ]

    def samples(self) -> Iterator[MetricSample]:
        """Yields the samples for a scrape."""
        now = self._clock()
        for cluster in self.clusters:
            up = cluster in self._reached and self.connection(cluster) is None
            yield MetricSample(UPSTREAM_UP, (cluster,), up)
        oldest: dict[tuple[str, str], float] = {}
        for each in self._lasting():
            labels = (each.key.cluster, each.problem.value)
            oldest[labels] = min(each.began, oldest.get(labels, each.began))
        for labels, began in oldest.items():
            yield MetricSample(UPSTREAM_PROBLEM_SECONDS, labels, now - began)

    # Internals

    def _lasting(self) -> list[OpenProblem]:
        return [open_problem for open_problem in self._open.values() if open_problem.ended is None]

    def _key(self, problem: UpstreamProblem, cluster: str, virtual_cluster: str, group: str, topic: str) -> ProblemKey:
        if problem in CONNECTION:
            return ProblemKey(None, cluster)
        return ProblemKey(problem, cluster, virtual_cluster, group, topic)

    def _log(self, open_problem: OpenProblem, now: float, traceback: str = "") -> None:
        words = WORDS[open_problem.problem]
        fields: dict[str, object] = {
            **open_problem.fields,
            "problem": open_problem.problem.value,
            "reason": open_problem.reason,
        }
        lasted = now - open_problem.began
        if lasted:
            fields |= {"since": open_problem.since.isoformat(timespec="seconds"), "seconds": round(lasted, 1)}
        fields |= {"traceback": traceback} if traceback else {}
        write = log.error if open_problem.problem is UpstreamProblem.ENGINE_FAILED else log.warning
        write(words.event, meanwhile=words.meanwhile, **fields)
