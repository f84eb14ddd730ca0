"""The figures of a report about a group, by examples small enough to be counted by hand."""

from __future__ import annotations

import pytest

from mesh.pipelines.audit.accounts import JournalEvent
from mesh.pipelines.report.figures import Figures, MemberInfo, TallyOfTime, tallies, window_of

PEOPLE = {"a": MemberInfo("client-a", "10.0.0.1"), "job": MemberInfo("job", "", is_lease=True)}


def figures_of(events: list[JournalEvent], begin: int = 0, end: int = 9_000, until: int = 100_000) -> Figures:
    cube = dict(tallies(("eu", "orders", 0), events, begin, end, until, 1_000))
    return Figures("v", "g", begin, end, until, 1_000, 60_000, cube, PEOPLE)


def held(who: str, first: int, last: int, since: int, until: int, lease: str = "") -> list[JournalEvent]:
    event = "leased" if lease else "delivered"
    return [
        JournalEvent(event, since, first, last, who, lease=lease, produced=since - 5),
        JournalEvent("acknowledged", until, first, last, who, lease=lease),
    ]


def test_it_is_added_up_by_window_topic_and_member() -> None:
    figures = figures_of(held("a", 0, 9, 1_100, 1_200) + held("b", 10, 39, 1_200, 3_300))
    assert figures.total.given == figures.total.counts["acknowledged"] == 40
    assert [each.counts["acknowledged"] for each in figures.windows.values()] == [0, 10, 0, 30, 0, 0, 0, 0, 0, 0]
    assert set(figures.topics) == {("eu", "orders")}
    assert [(each.shown, each.share) for each in figures.members] == [("b", 0.75), ("client-a", 0.25)]
    assert figures.fairness == pytest.approx(40**2 / (2 * (30**2 + 10**2)))
    assert figures.fairness_by_window[1_000] == 1 / 2, "b was there already, and acknowledged nothing"
    assert figures.fairness_by_window[3_000] == 1, "a was heard of for the last time before"
    row = figures.tables()["topics"][0]
    assert (row["to_delivery_p50"], row["to_acknowledgement_p50"], row["in_all_p999"]) == (5, 2_100, 2_105)


def test_a_holder_of_leases_is_no_part_of_fairness_and_is_never_slow() -> None:
    events = held("a", 0, 9, 1_000, 1_010) + held("job", 10, 999, 1_000, 9_000, lease="L")
    figures = figures_of(events)
    assert figures.fairness == 1
    assert [each.standing for each in figures.members] == ["", ""]


def test_slow_and_stuck_members() -> None:
    quick = [each for at in range(3) for each in held("abc"[at], at, at, 1_000, 1_010)]
    slow = held("d", 10, 10, 1_000, 1_041)
    stuck = [*held("e", 20, 20, 1_000, 1_010), JournalEvent("delivered", 2_000, 21, 30, "e")]
    members = {each.name: each for each in figures_of(quick + slow + stuck).members}
    assert {name for name, each in members.items() if each.standing} == {"d", "e"}
    assert (members["d"].standing, members["e"].standing) == ("slow", "stuck")
    assert (members["e"].tally.counts["open"], members["e"].tally.oldest) == (10, 98_000)
    alive = [*stuck, *held("e", 40, 40, 2_500, 3_000)]
    assert {each.standing for each in figures_of(quick + alive).members} == {""}, "it acknowledges what came later"
    assert {each.standing for each in figures_of(quick + stuck, until=50_000).members} == {""}, "not for long enough"


def test_what_was_before_is_known_and_not_counted() -> None:
    figures = figures_of(held("a", 0, 9, 1_000, 5_000), begin=3_000)
    assert figures.total.given == 0
    assert figures.total.counts["acknowledged"] == 10
    assert figures.total.held == {4_000: 10}


@pytest.mark.parametrize("told_at", [500, 1_150, 8_000])
def test_what_has_no_record_counts_in_no_window_whenever_the_journal_says_so(told_at: int) -> None:
    empty = [JournalEvent("empty", told_at, 8, 9), JournalEvent("empty", told_at, 38, 39)]
    events = held("a", 0, 9, 1_100, 1_200) + held("job", 10, 39, 1_200, 3_300, lease="L") + empty
    figures = figures_of(sorted(events, key=lambda each: each.time))
    assert [each.counts["acknowledged"] for each in figures.windows.values()][:4] == [0, 8, 0, 28]
    assert (figures.total.given, figures.total.counts["open"]) == (36, 0)
    assert figures.total.held == {100: 8, 2_100: 28}
    assert [(each.name, each.share) for each in figures.members] == [("job", 28 / 36), ("a", 8 / 36)]


def test_rates_are_of_everything_that_was_delivered() -> None:
    tally = TallyOfTime()
    tally.counts.update(delivered=90, redelivered=10, dead_lettered=5)
    assert (tally.rate("redelivered"), tally.rate("dead_lettered")) == (0.1, 0.05)
    assert TallyOfTime().rate("redelivered") == 0


@pytest.mark.parametrize(
    ("seconds", "window"), [(0, 1), (60, 1), (61, 2), (3_600, 60), (86_400, 1_800), (10**8, 86_400)]
)
def test_there_are_some_sixty_windows(seconds: int, window: int) -> None:
    assert window_of(5_000, 5_000 + seconds * 1_000) == window * 1_000
