"""The account of one partition's records: compares the journal, the landed table and the group's commits with the log.

It is pure, and works on runs of offsets: its time grows with the new events since the last audit, not with the records.
From one audit to the next only open offsets are kept: those that are expected, and not yet settled and landed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final

from mesh.pipelines.audit.held_runs import HeldRuns
from mesh.pipelines.audit.intervals import Run, Runs, common, length, repeated, union, without

EVENTS_SHOWN: Final = 20
"""The most events in the story of one deviation."""
FAILING: Final = frozenset(
    {"missing", "unjournalled", "not_landed", "not_held", "landed_twice", "not_upstream", "deleted"}
)
"""Kinds of deviations that make an audit fail; others are only reported."""
COLUMNS: Final = ("expected", "delivered", "acknowledged", "landed", "missing", "twice", "redelivered", "dead_lettered")


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """One event of the journal for this partition; times in ms."""

    event: str
    time: int
    first: int
    last: int
    member: str = ""
    client_id: str = ""
    host: str = ""
    lease: str = ""
    deliveries: int = 0
    produced: int = -1

    def describe(self) -> str:
        who = f" {self.member}" if self.member else ""
        where = f" ({self.client_id or self.lease}{'@' + self.host if self.host else ''})" if who else ""
        return f"{self.time} {self.event} {self.first}..{self.last}{who}{where}"


@dataclass(frozen=True, slots=True)
class Found:
    """The findings about one partition since the last audit.

    events: the events of the journal.
    exists: runs of offsets whose records can be consumed, each with its window, up to the offset `end`.
    start: the current start of the log.
    claimed: the offsets that the group has settled according to its upstream commits.
    landed: the offsets in the landed files.
    is_compacted: whether compaction may remove records anywhere in the log.
    still: those of the open offsets that still have a record.
    """

    events: Sequence[JournalEvent] = ()
    exists: Sequence[tuple[int, int, int]] = ()
    start: int = 0
    end: int = 0
    claimed: Sequence[Run] = ()
    landed: Sequence[Run] = ()
    is_compacted: bool = False
    still: Sequence[Run] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRules:
    """The rules of an audit for a group. lands: whether acknowledged records must be in a table. leases_only: only
    those that leases acknowledged. is_whole: whether the journal has no holes."""

    lands: bool = True
    leases_only: bool = True
    is_whole: bool = True


@dataclass(slots=True)
class AuditState:
    """The state of a partition between audits.

    baseline: the first audited offset, -1 while it is unknown.
    seen: the offset up to which the log is known.
    floor: the lowest open offset; the runs below are kept only from there on.
    """

    baseline: int = -1
    seen: int = 0
    floor: int = 0
    open: list[tuple[int, int, int]] = field(default_factory=list)
    delivered: Runs = field(default_factory=list)
    acknowledged: Runs = field(default_factory=list)
    to_land: Runs = field(default_factory=list)
    landed: Runs = field(default_factory=list)
    dead: Runs = field(default_factory=list)
    held: list[list[Any]] = field(default_factory=list)
    windows: list[tuple[int, int]] = field(default_factory=list)
    is_begun: bool = False
    """True if a process owns the partition and has not given it up in order."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A deviation: its kind, its offsets, and the story of their events."""

    kind: str
    first: int
    last: int
    window: int
    story: tuple[str, ...]

    @property
    def fails(self) -> bool:
        return self.kind in FAILING


@dataclass(frozen=True, slots=True)
class Account:
    """The account of one partition in an audit. counts: by window. waiting: the number of expected offsets that are not
    settled yet."""

    counts: Mapping[int, Counter[str]]
    deviations: Sequence[Deviation]
    state: AuditState
    waiting: int


def account(before: AuditState, found: Found, rules: AuditRules) -> Account:
    return _Accounting(before, found, rules).result()


class _Accounting:
    def __init__(self, before: AuditState, found: Found, rules: AuditRules) -> None:
        reset = max((at for at, each in enumerate(found.events) if each.event == "reset"), default=-1)
        if reset >= 0:  # nothing can be said about offsets before the reset
            before, found = AuditState(), replace(found, events=found.events[reset + 1 :])
        if any(each.event == "truncated" for each in found.events):
            before, found = _without_truncated(before, found)
        self._before = before
        self._found = found
        self._rules = rules
        self._deviations: list[Deviation] = []
        self._counts: dict[int, Counter[str]] = defaultdict(Counter)
        self._held: list[JournalEvent] = [JournalEvent(*each) for each in before.held]
        self._events = [*self._held, *found.events]
        self._baseline = before.baseline
        if self._baseline < 0:
            self._baseline = _baseline(found)
        self._windows = _windows(before.windows, found.exists)
        self._is_begun, is_cut = _ownership(before.is_begun, found.events)
        self._is_whole = rules.is_whole and not is_cut

    def result(self) -> Account:
        before, found = self._before, self._found
        opened = before.open
        fresh = self._fresh()
        expected = union((first, last) for first, last, _ in (*opened, *fresh))
        delivered, acknowledged, to_land, dead = self._play(expected)
        if not self._rules.lands:
            to_land = []
        landed_new = union(found.landed)
        landed = union([*before.landed, *landed_new])
        self._landed_twice(landed_new)
        self._count("expected", [(first, last) for first, last, _ in fresh])
        for name, now, then in (
            ("delivered", delivered, before.delivered),
            ("acknowledged", acknowledged, before.acknowledged),
            ("landed", landed, before.landed),
            ("dead_lettered", dead, before.dead),
        ):
            self._count(name, common(without(now, then), expected))
        settled = union([*acknowledged, *dead])
        vanished = self._vanished([*settled, *landed])
        missing = without(without(common(expected, found.claimed), settled), union([*landed, *vanished]))
        self._report("missing" if self._is_whole else "unjournalled", missing)
        self._count("missing", missing)
        not_landed = without(common(expected, to_land), landed) if self._rules.lands else []
        self._report("not_landed", not_landed)
        self._compare_with_the_log(landed_new, settled, delivered)
        landed_and_claimed = common(landed, union(found.claimed))
        waits_to_land = without(to_land, landed)
        closed = union([*without(settled, waits_to_land), *landed_and_claimed, *missing, *not_landed, *vanished])
        left = [
            (first, last, window)
            for run_first, run_last, window in (*opened, *fresh)
            for first, last in without([(run_first, run_last)], closed)
        ]
        waiting = length(without(union((f, last) for f, last, _ in left), settled))
        return Account(
            self._counts,
            self._deviations,
            self._remember(left, delivered, acknowledged, to_land, landed, dead),
            waiting,
        )

    def _fresh(self) -> list[tuple[int, int, int]]:
        """Returns the expected offsets in the new part of the log."""
        if self._baseline < 0:
            return []
        prior: Runs = []
        if self._before.baseline < 0:
            # Offsets above the committed offset that were settled when the journal began.
            events = takewhile(lambda each: each.event == "known", self._found.events)
            prior = union((each.first, each.last) for each in events)
        return [
            (first, last, window)
            for begin, end, window in self._found.exists
            for first, last in without([(max(begin, self._baseline), end)] if end >= self._baseline else [], prior)
        ]

    def _vanished(self, settled: Runs) -> Runs:
        """Returns offsets that an earlier audit saw as open, that are neither settled nor held, and that the log has
        lost: no member can get them. A deleted record is a loss. For a compacted record there is a later one with its
        key."""
        handled = union([*settled, *((each.first, each.last) for each in self._held)])
        waits = without(union((first, last) for first, last, _ in self._before.open), handled)
        deleted = common(waits, [(0, self._found.start - 1)])
        self._report("deleted", deleted)
        compacted = without(waits, union([*deleted, *self._found.still])) if self._found.is_compacted else []
        self._report("compacted", compacted)
        return union([*deleted, *compacted])

    def _compare_with_the_log(self, landed_new: Runs, settled: Runs, delivered: Runs) -> None:
        if self._baseline < 0 or not self._found.end:
            return
        looked_at = max(self._before.seen, self._found.start, self._baseline)
        exists = union((first, last) for first, last, _ in self._found.exists)
        if looked_at < self._found.end:
            was_there = union([*exists, *delivered]) if self._found.is_compacted else exists
            self._report("not_upstream", without(common(landed_new, [(looked_at, self._found.end - 1)]), was_there))
        passed = max(self._before.seen, self._baseline)
        if passed < self._found.start:
            # Deleted before the audit saw them, and not empty according to the mesh: no member could get them.
            empty = ((each.first, each.last) for each in self._found.events if each.event == "empty")
            self._report("deleted", without([(passed, self._found.start - 1)], union([*settled, *empty])))

    def _play(self, expected: Runs) -> tuple[Runs, Runs, Runs, Runs]:
        """Replays the events in order, to know which member held which offsets when they were acknowledged."""
        before = self._before
        delivered, acknowledged, to_land, dead = (
            list(each) for each in (before.delivered, before.acknowledged, before.to_land, before.dead)
        )
        holding = HeldRuns(_part, self._held)
        settled_twice: Runs = []
        for each in self._found.events:
            run = (each.first, each.last)
            match each.event:
                case "delivered" | "redelivered" | "leased":
                    delivered.append(run)
                    _take(holding, each)
                    if each.event == "redelivered":
                        self._count("redelivered", common([run], expected))
                case "corrected":
                    _take(holding, each)
                case "released" | "expired" | "gone":
                    holding.cut(*run)
                case "revoked" | "reset":
                    holding.clear()
                case "dead_lettered" | "given_up":
                    dead.append(run)
                case "acknowledged":
                    not_held = _settle(holding, each)
                    if self._is_whole:
                        self._report("not_held", common(not_held, expected))
                    acknowledged.append(run)
                    settled_twice.append(run)
                    if each.lease or not self._rules.leases_only:
                        to_land.append(run)
        again = union([*repeated(settled_twice), *common(union(settled_twice), before.acknowledged)])
        twice = without(again, self._without_records())
        self._report("acknowledged_twice", common(twice, [(self._baseline, 1 << 62)]))
        self._count("twice", twice)
        self._held = list(holding)
        return union(delivered), union(acknowledged), union(to_land), union(dead)

    def _without_records(self) -> Runs:
        """Returns the offsets known to have no record, from the new part of the log and from the journal."""
        found = self._found
        empty = [(each.first, each.last) for each in found.events if each.event == "empty"]
        looked_at = [(max(self._before.seen, found.start), found.end - 1)]
        return union([*empty, *without(looked_at, union((first, last) for first, last, _ in found.exists))])

    def _landed_twice(self, landed_new: Runs) -> None:
        twice = repeated(self._found.landed)
        again = common(landed_new, union([*self._before.landed, (self._baseline, self._before.floor - 1)]))
        both = union([*twice, *again])
        self._report("landed_twice", both)
        self._count("twice", both)

    def _remember(
        self,
        left: list[tuple[int, int, int]],
        delivered: Runs,
        acknowledged: Runs,
        to_land: Runs,
        landed: Runs,
        dead: Runs,
    ) -> AuditState:
        seen = max(self._before.seen, self._found.end) if self._baseline >= 0 else self._before.seen
        floor = min((first for first, _, _ in left), default=seen)
        floor = max(floor, self._before.floor)
        above = [(floor, 1 << 62)]
        kept = [common(each, above) for each in (delivered, acknowledged, to_land, landed, dead)]
        held = [_remembered(each) for each in self._held]
        at = max(bisect_right(self._windows, (floor, 1 << 62)) - 1, 0)
        state = AuditState(self._baseline, seen, floor, left)
        state.delivered, state.acknowledged, state.to_land, state.landed, state.dead = kept
        state.held, state.windows, state.is_begun = held, self._windows[at:], self._is_begun
        return state

    def _count(self, name: str, runs: Iterable[Run]) -> None:
        for first, last in runs:
            while first <= last:
                at = max(bisect_right(self._windows, (first, 1 << 62)) - 1, 0)
                window = self._windows[at][1] if self._windows else 0
                end = self._windows[at + 1][0] - 1 if at + 1 < len(self._windows) else last
                self._counts[window][name] += min(last, max(end, first)) - first + 1
                first = max(end, first) + 1

    def _report(self, kind: str, runs: Iterable[Run]) -> None:
        for first, last in runs:
            # Includes the neighbours: where no member got a record, their events show which process skipped it.
            about = [each for each in self._events if each.first <= last + 1 and each.last >= first - 1]
            story = tuple(each.describe() for each in about[-EVENTS_SHOWN:])
            at = max(bisect_right(self._windows, (first, 1 << 62)) - 1, 0)
            window = self._windows[at][1] if self._windows else 0
            self._deviations.append(Deviation(kind, first, last, window, story))


def _without_truncated(before: AuditState, found: Found) -> tuple[AuditState, Found]:
    """Returns the state and the findings without the offsets that later events say were truncated."""
    events: list[JournalEvent] = []
    for each in found.events:
        if each.event == "truncated":
            events = [below for event in events if (below := _below(event, each.first)) is not None]
            before = _state_below(before, each.first)
        events.append(each)
    return before, replace(found, events=events)


def _below(event: JournalEvent, offset: int) -> JournalEvent | None:
    """Returns the part of an event below this offset; None if nothing is left. Events about no offsets stay."""
    if event.last < offset:
        return event
    is_about_nothing_left = event.first >= offset and event.event != "known"
    return None if is_about_nothing_left else replace(event, last=offset - 1)


def _state_below(state: AuditState, offset: int) -> AuditState:
    kept = [(0, offset - 1)]
    held = [_below(JournalEvent(*each), offset) for each in state.held]
    return replace(
        state,
        seen=min(state.seen, offset),
        floor=min(state.floor, offset),
        open=[(first, min(last, offset - 1), window) for first, last, window in state.open if first < offset],
        delivered=common(state.delivered, kept),
        acknowledged=common(state.acknowledged, kept),
        to_land=common(state.to_land, kept),
        landed=common(state.landed, kept),
        dead=common(state.dead, kept),
        held=[_remembered(each) for each in held if each is not None],
    )


def _remembered(e: JournalEvent) -> list[Any]:
    return [e.event, e.time, e.first, e.last, e.member, e.client_id, e.host, e.lease, e.deliveries]


def _take(holding: HeldRuns[JournalEvent], each: JournalEvent) -> None:
    """Makes a holder the only one of these offsets: older holders of them are outdated."""
    holding.cut(each.first, each.last)
    holding.put(each)


def _settle(holding: HeldRuns[JournalEvent], each: JournalEvent) -> Runs:
    """Settles offsets, and returns those that the settling member or lease did not hold."""
    taken = holding.cut(each.first, each.last)
    held = union((run.first, run.last) for run in taken if (run.member, run.lease) == (each.member, each.lease))
    return without([(each.first, each.last)], held)


def _part(holder: JournalEvent, first: int, last: int) -> JournalEvent:
    return replace(holder, first=first, last=last)


def _baseline(found: Found) -> int:
    """Returns the position of the group when the journal began. Everything below it was settled before."""
    known = next((each for each in found.events if each.event == "known"), None)
    if known is not None:
        return known.last + 1
    return min((each.first for each in found.events if each.last >= each.first), default=-1)


def _ownership(is_begun: bool, events: Iterable[JournalEvent]) -> tuple[bool, bool]:
    """Returns two flags: whether a process has the partition at the end, and whether one ended without giving it up."""
    is_cut = False
    for each in events:
        if each.event == "known" and each.first == 0:
            is_begun, is_cut = True, is_cut or is_begun
        elif each.event in ("revoked", "reset"):
            is_begun = False
    return is_begun, is_cut


def _windows(before: Sequence[tuple[int, int]], exists: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Returns the first offset of each window. A window begins with the first offset of a higher timestamp, since
    offsets are in the order of arrival."""
    windows = [tuple(each) for each in before]
    for first, _, window in sorted(exists):
        if not windows or window > windows[-1][1]:
            windows.append((first, window))
    return windows  # type: ignore[return-value]
