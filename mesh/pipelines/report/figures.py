"""The figures of a report: facts, added up by window, topic and member, and what follows from them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median_low
from typing import Any, Final, TypeAlias, TypeVar

from mesh.pipelines.audit.accounts import JournalEvent
from mesh.pipelines.audit.histories import Fact, facts
from mesh.pipelines.audit.records import Holes, Place
from mesh.pipelines.report.delays import Delays, jain, quantile, quantiles, rounded

COUNTS: Final = (
    *("delivered", "redelivered", "acknowledged", "released", "expired", "revoked"),
    *("dead_lettered", "given_up", "gone", "open"),
)
DELAYS: Final = {"waited": "to_delivery", "held": "to_acknowledgement", "whole": "in_all"}
"""The delays of a tally, with their names in tables."""
QUANTILES: Final = {"p50": 500, "p99": 990, "p999": 999}
"""Quantiles in thousandths."""
SLOW: Final = 4
"""A member is slow if it holds its median record at least this many times as long as the median member, and at least
for `SLOW_AT_LEAST`."""
SLOW_AT_LEAST: Final = 20
"""Milliseconds."""
WINDOWS: Final = 60
"""The approximate number of windows, if no length is given."""
LENGTHS: Final = (1, 2, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400)
"""Allowed lengths of a window, in seconds."""

Key: TypeAlias = tuple[int, str, str, str]
"""Window, cluster, topic, member."""
Kind = TypeVar("Kind", bound=Hashable)


@dataclass(slots=True)
class TallyOfTime:
    """Counts in one window of time. counts: records by kind. oldest: for how long the longest held record was held, in
    ms. acknowledged_at: the time of the last acknowledgement in ms, 0 for never."""

    counts: Counter[str] = field(default_factory=Counter)
    waited: Delays = field(default_factory=Counter)
    held: Delays = field(default_factory=Counter)
    whole: Delays = field(default_factory=Counter)
    oldest: int = 0
    acknowledged_at: int = 0

    def take(self, fact: Fact) -> None:
        self.counts[fact.kind] += fact.records
        if fact.waited >= 0:
            self.waited[rounded(fact.waited)] += fact.records
        if fact.kind == "acknowledged":
            self.acknowledged_at = max(self.acknowledged_at, fact.time)
            if fact.held >= 0:
                self.held[rounded(fact.held)] += fact.records
            if fact.whole >= 0:
                self.whole[rounded(fact.whole)] += fact.records
        elif fact.kind == "open":
            self.oldest = max(self.oldest, fact.held)

    def add(self, other: TallyOfTime) -> TallyOfTime:
        self.counts.update(other.counts)
        self.waited.update(other.waited)
        self.held.update(other.held)
        self.whole.update(other.whole)
        self.oldest = max(self.oldest, other.oldest)
        self.acknowledged_at = max(self.acknowledged_at, other.acknowledged_at)
        return self

    @property
    def given(self) -> int:
        """Returns the number of delivered records, for the first time or not."""
        return self.counts["delivered"] + self.counts["redelivered"]

    def rate(self, name: str) -> float:
        """Returns the number of `redelivered`, `dead_lettered` and so on, as a part of the deliveries."""
        return self.counts[name] / self.given if self.given else 0.0

    def row(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: self.counts[name] for name in COUNTS}
        for name, column in DELAYS.items():
            its = quantiles(getattr(self, name), list(QUANTILES.values()))
            found |= {f"{column}_{each}": value for each, value in zip(QUANTILES, its, strict=True)}
        return found | {"redelivery_rate": self.rate("redelivered"), "dead_letter_rate": self.rate("dead_lettered")}


def tallies(
    place: Place, events: Iterable[JournalEvent], begin: int, end: int, until: int, window: int
) -> Iterator[tuple[Key, TallyOfTime]]:
    """Yields the tallies of one partition. begin, end: the counted time. until: the end of the time for which open
    records count as held. window: in ms."""
    found: dict[Key, TallyOfTime] = {}
    for fact in facts(events, until):
        if fact.time >= begin:
            key = (min(fact.time, end) // window * window, place[0], place[1], fact.who)
            found.setdefault(key, TallyOfTime()).take(fact)
    yield from found.items()


def window_of(begin: int, end: int) -> int:
    """Returns the length of a window in ms, for about sixty windows."""
    return next((1_000 * each for each in LENGTHS if end - begin <= WINDOWS * 1_000 * each), 1_000 * LENGTHS[-1])


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """A member, without its name. is_lease: whether it is a holder of leases."""

    client_id: str = ""
    host: str = ""
    is_lease: bool = False


@dataclass(frozen=True, slots=True)
class MemberFigures:
    """The figures of one member. share: its part of all acknowledged records. standing: "stuck", "slow" or ""."""

    name: str
    member_info: MemberInfo
    tally: TallyOfTime
    share: float
    standing: str

    @property
    def shown(self) -> str:
        return self.member_info.client_id or self.name or "nobody"


@dataclass(frozen=True)
class Figures:
    """The figures of a report. begin, end: the time of the events, in ms since the epoch. until: the end of the time
    for which open records count as held. window, stuck: in ms."""

    virtual_cluster: str
    group: str
    begin: int
    end: int
    until: int
    window: int
    stuck: int
    cube: Mapping[Key, TallyOfTime]
    member_infos: Mapping[str, MemberInfo]
    holes: Holes = field(default_factory=Holes)

    def grouped_by(self, kind: Callable[[Key], Kind]) -> dict[Kind, TallyOfTime]:
        """Returns the figures added up by a part of the key."""
        found: dict[Kind, TallyOfTime] = {}
        for key, tally in self.cube.items():
            found.setdefault(kind(key), TallyOfTime()).add(tally)
        return found

    @cached_property
    def total(self) -> TallyOfTime:
        return self.grouped_by(lambda _: "").get("", TallyOfTime())

    @cached_property
    def windows(self) -> dict[int, TallyOfTime]:
        """Returns every window from the first to the last; some may have no figures."""
        found = self.grouped_by(lambda key: key[0])
        begin, end = self.begin // self.window * self.window, self.end // self.window * self.window
        return {at: found.get(at, TallyOfTime()) for at in range(begin, end + 1, self.window)}

    @cached_property
    def topics(self) -> dict[tuple[str, str], TallyOfTime]:
        return dict(sorted(self.grouped_by(lambda key: (key[1], key[2])).items()))

    @cached_property
    def topics_by_window(self) -> dict[tuple[str, str, int], TallyOfTime]:
        return self.grouped_by(lambda key: (key[1], key[2], key[0]))

    @cached_property
    def members_by_window(self) -> dict[tuple[str, int], TallyOfTime]:
        return self.grouped_by(lambda key: (key[3], key[0]))

    @cached_property
    def members(self) -> Sequence[MemberFigures]:
        """Returns the members, those with the most acknowledged records first."""
        found = {name: each for name, each in self.grouped_by(lambda key: key[3]).items() if name}
        total = sum(each.counts["acknowledged"] for each in found.values())
        usual = self._usual(found)
        members = [
            MemberFigures(
                name,
                self.member_infos.get(name, MemberInfo()),
                tally,
                tally.counts["acknowledged"] / total if total else 0.0,
                self._standing(name, tally, usual),
            )
            for name, tally in found.items()
        ]
        return sorted(members, key=lambda each: (-each.tally.counts["acknowledged"], each.name))

    def _is_lease(self, name: str) -> bool:
        return self.member_infos.get(name, MemberInfo()).is_lease

    def _usual(self, found: Mapping[str, TallyOfTime]) -> int:
        """Returns the time for which the median member holds its median record."""
        medians = [
            its for name, tally in found.items() if not self._is_lease(name) and (its := quantile(tally.held, 500))
        ]
        return median_low(medians) if medians else 0

    def _standing(self, name: str, tally: TallyOfTime, usual: int) -> str:
        if tally.oldest >= self.stuck and tally.acknowledged_at < self.until - tally.oldest:
            return "stuck"
        if self._is_lease(name):
            return ""  # a batch is held as long as its processing takes
        its = quantile(tally.held, 500)
        return "slow" if its is not None and its >= max(SLOW * usual, SLOW_AT_LEAST) else ""

    @cached_property
    def fairness(self) -> float | None:
        """Returns Jain's index of the members' acknowledgements. Lease holders take as much as they like, and do not
        count."""
        return jain(each.tally.counts["acknowledged"] for each in self.members if not each.member_info.is_lease)

    @cached_property
    def fairness_by_window(self) -> dict[int, float | None]:
        """Returns Jain's index in each window, over the members between their first and last events."""
        heard: dict[str, list[int]] = {}
        for name, window in self.members_by_window:
            if name and not self._is_lease(name):
                heard.setdefault(name, []).append(window)
        spans = {name: (min(each), max(each)) for name, each in heard.items()}
        found = {}
        for at in self.windows:
            there = [name for name, (first, last) in spans.items() if first <= at <= last]
            got = [self.members_by_window.get((name, at), TallyOfTime()).counts["acknowledged"] for name in there]
            found[at] = jain(got)
        return found

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Returns rows by the name of the table."""
        members = [
            {"member": each.name, "client_id": each.member_info.client_id, "host": each.member_info.host}
            | {"is_lease": each.member_info.is_lease, "share": each.share, "standing": each.standing}
            | {"oldest_held": each.tally.oldest or None}
            | each.tally.row()
            for each in self.members
        ]
        topics = [{"cluster": at[0], "topic": at[1]} | each.row() for at, each in self.topics.items()]
        windows = [
            {"window": at, "fairness": self.fairness_by_window[at]} | each.row() for at, each in self.windows.items()
        ]
        cube = [
            {"window": key[0], "cluster": key[1], "topic": key[2], "member": key[3]} | each.row()
            for key, each in sorted(self.cube.items())
        ]
        by_topic = [
            {"window": key[2], "cluster": key[0], "topic": key[1]} | each.row()
            for key, each in sorted(self.topics_by_window.items())
        ]
        return {
            "members": members,
            "topics": topics,
            "windows": windows,
            "topics_by_window": by_topic,
            "members_by_topic_and_window": cube,
        }
