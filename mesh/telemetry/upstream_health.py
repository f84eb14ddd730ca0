"""What is wrong upstream at the moment, for logs, metrics and /readyz.

One line when a problem begins, a reminder every `REMINDER` seconds, one line when it is over, however often it is
reported and by however many. It is over when it has not come back for `SETTLED` seconds: each client of a cluster finds
out at another time that it is back, and may tell of what was. What concerns a whole cluster (it cannot be reached,
refuses the credentials, ...) is one problem of that cluster, which ends when nobody reports it any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from mesh.telemetry.logs import get_logger
from mesh.telemetry.metric_definitions import UPSTREAM_PROBLEM_SECONDS, UPSTREAM_UP, Sample
from mesh.upstream.problems import CONNECTION, UpstreamProblem

log = get_logger(__name__)

REMINDER = 300.0
SETTLED = 8.0
LOOK = 1.0
"""Seconds between two looks whether something is to be told."""


@dataclass(frozen=True, slots=True)
class _Words:
    """What a problem is called, what kafka-mesh does while it lasts, and what its end is called."""

    event: str
    meanwhile: str
    over: str


_WAITS = (
    "its partitions bring nothing, all others go on; what is acknowledged there in a pool is stored when it is back, "
    "and behind a relay or a router its nodes look down"
)
_USABLE = "an upstream cluster can be used again"
WORDS: Final[Mapping[UpstreamProblem, _Words]] = {
    UpstreamProblem.UNREACHABLE: _Words("an upstream cluster cannot be reached", _WAITS, _USABLE),
    UpstreamProblem.ADDRESS: _Words("the address of an upstream cluster cannot be resolved", _WAITS, _USABLE),
    UpstreamProblem.CREDENTIALS: _Words("an upstream cluster refuses the credentials", _WAITS, _USABLE),
    UpstreamProblem.ENCRYPTION: _Words("no TLS connection to an upstream cluster", _WAITS, _USABLE),
    UpstreamProblem.PROPERTIES: _Words("the properties of an upstream cluster are refused", _WAITS, _USABLE),
    UpstreamProblem.NOT_AUTHORIZED: _Words(
        "an upstream cluster does not authorize a group or its topics",
        "that group gets nothing of what it may not use, all else goes on; commits wait until they are stored",
        "an upstream cluster authorizes the group again",
    ),
    UpstreamProblem.FENCED: _Words(
        "another process uses the same process_id",
        "the other process serves that group's partitions of this cluster; this one stays out until the other has "
        "left. Give each process a process_id of its own",
        "no other process uses the same process_id any more",
    ),
    UpstreamProblem.ASSIGNOR: _Words(
        "the members of an upstream group use an assignor that kafka-mesh cannot join",
        "that group gets nothing of this cluster, all else goes on",
        "an upstream group can be joined again",
    ),
    UpstreamProblem.TOPIC_MISSING: _Words(
        "an upstream topic does not exist, or may not be described",
        "the other sources of its topic go on; it is looked for again and again",
        "an upstream topic is there again",
    ),
    UpstreamProblem.COMMITS: _Words(
        "upstream commits fail",
        "records go on; members' commits are answered with COORDINATOR_LOAD_IN_PROGRESS, which they retry",
        "upstream commits are stored again",
    ),
    UpstreamProblem.UNREADABLE: _Words(
        "partitions of an upstream cluster cannot be read",
        "they bring nothing, all others go on; what was read before is acknowledged and stored",
        "all partitions of an upstream cluster can be read again",
    ),
    UpstreamProblem.ENGINE_FAILED: _Words(
        "an engine failed: kafka-mesh has a bug",
        "the engine is made anew; what its group had not acknowledged is delivered again, all else goes on",
        "an engine works again",
    ),
    UpstreamProblem.NODE_WITHOUT_ADDRESS: _Words(
        "clients cannot reach a node of an upstream cluster",
        "clients see neither that node nor its partitions' leaders; all other nodes go on",
        "clients can reach every node of an upstream cluster",
    ),
    UpstreamProblem.GROUP_ELSEWHERE: _Words(
        "a group has members in a cluster that is not its home",
        "those consume there directly, and what is committed to that cluster through its union is answered with "
        "COORDINATOR_LOAD_IN_PROGRESS, which members retry",
        "a group has no members any more in a cluster that is not its home",
    ),
}


@dataclass(frozen=True, slots=True)
class ProblemKey:
    """What a problem is about. problem: None for all of `CONNECTION`, of which a cluster has one at most."""

    problem: UpstreamProblem | None
    cluster: str
    virtual_cluster: str = ""
    group: str = ""
    topic: str = ""


@dataclass(slots=True)
class OpenProblem:
    """A problem that lasts. began, told, ended: seconds on the clock; since: the time of day."""

    key: ProblemKey
    problem: UpstreamProblem
    reason: str
    began: float
    told: float
    since: datetime
    reporters: set[tuple[str, str, str]] = field(default_factory=set)
    ended: float | None = None

    @property
    def fields(self) -> dict[str, str]:
        """What it is about, for a log line."""
        key = self.key
        named = {"cluster": key.cluster, "virtual_cluster": key.virtual_cluster, "group": key.group, "topic": key.topic}
        return {name: value for name, value in named.items() if value}


class UpstreamHealth:
    """Problems with upstream clusters that last, and who reports them. clusters: all there are, and may change.
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
        """It is so, perhaps since long. Who reports a problem of a whole cluster is named by `virtual_cluster` and
        `group`, "" for the look at its topics; part: of an engine, whose parts find out by themselves. is_news: to be
        told though it is known, since it is about something else now."""
        key = self._key(problem, cluster, virtual_cluster, group, topic)
        now = self._clock()
        open_problem = self._open.get(key)
        if open_problem is None:
            open_problem = self._open[key] = OpenProblem(key, problem, reason, now, now, datetime.now(UTC))
            self._tell(open_problem, now, traceback)
        elif (
            traceback or is_news or (problem is not open_problem.problem and problem is not UpstreamProblem.UNREACHABLE)
        ):
            # It was known less exactly, or it is something else now.
            open_problem.problem, open_problem.reason, open_problem.told = problem, reason, now
            self._tell(open_problem, now, traceback)
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
        """It is not so (any more), as far as this reporter knows."""
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
        """Its pool has ended, or has left one cluster: what concerns it alone interests nobody, and it reports nothing
        any more."""
        for key, open_problem in list(self._open.items()):
            if cluster not in (None, key.cluster):
                continue
            open_problem.reporters = {each for each in open_problem.reporters if each[:2] != (virtual_cluster, group)}
            if not open_problem.reporters and open_problem.ended is None:
                del self._open[key]

    def forget_cluster(self, cluster: str) -> None:
        """It is there no more, or is another one by the same name."""
        self._reached.discard(cluster)
        for key in [key for key in self._open if key.cluster == cluster]:
            del self._open[key]

    def has_reached(self, cluster: str) -> bool:
        """Whether it could ever be used."""
        return cluster in self._reached

    def connection(self, cluster: str) -> OpenProblem | None:
        """Why a cluster cannot be used by anybody, if that is so."""
        open_problem = self._open.get(ProblemKey(None, cluster))
        return open_problem if open_problem is not None and open_problem.ended is None else None

    def remind(self) -> None:
        """Tell of what is over, and again of what has not been told of for long."""
        now = self._clock()
        for key, open_problem in list(self._open.items()):
            if open_problem.ended is not None:
                if now - open_problem.ended >= SETTLED:
                    del self._open[key]
                    lasted = round(open_problem.ended - open_problem.began, 1)
                    over, problem = WORDS[open_problem.problem].over, open_problem.problem.value
                    log.info(over, problem=problem, seconds=lasted, **open_problem.fields)
            elif now - open_problem.told >= REMINDER:
                open_problem.told = now
                self._tell(open_problem, now)

    async def keep_reminding(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK)
            self.remind()

    # For /readyz and metrics

    def blocking(self) -> list[str]:
        """Why clients had better be sent to another process; empty if they had not."""
        fenced = [each for each in self._lasting() if each.problem is UpstreamProblem.FENCED]
        return [f"{WORDS[each.problem].event}: {each.reason} (cluster {each.key.cluster})" for each in fenced]

    def described(self) -> list[dict[str, object]]:
        """All that stands, the oldest first; the same keys and words as in the log."""
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

    def samples(self) -> Iterator[Sample]:
        """For a scrape."""
        now = self._clock()
        for cluster in self.clusters:
            up = cluster in self._reached and self.connection(cluster) is None
            yield Sample(UPSTREAM_UP, (cluster,), up)
        oldest: dict[tuple[str, str], float] = {}
        for each in self._lasting():
            labels = (each.key.cluster, each.problem.value)
            oldest[labels] = min(each.began, oldest.get(labels, each.began))
        for labels, began in oldest.items():
            yield Sample(UPSTREAM_PROBLEM_SECONDS, labels, now - began)

    # How

    def _lasting(self) -> list[OpenProblem]:
        return [open_problem for open_problem in self._open.values() if open_problem.ended is None]

    def _key(self, problem: UpstreamProblem, cluster: str, virtual_cluster: str, group: str, topic: str) -> ProblemKey:
        if problem in CONNECTION:
            return ProblemKey(None, cluster)
        return ProblemKey(problem, cluster, virtual_cluster, group, topic)

    def _tell(self, open_problem: OpenProblem, now: float, traceback: str = "") -> None:
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
