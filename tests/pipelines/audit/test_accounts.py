"""One partition's account: one audit, or several, find the planted faults, and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mesh.pipelines.audit.accounts import AuditRules, AuditState, Deviation, Found, JournalEvent, account
from mesh.pipelines.audit.intervals import Runs, common, length, repeated, union, without

RUNS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 9)).map(lambda run: (run[0], run[0] + run[1])), max_size=12
)


def offsets(runs: Runs) -> list[int]:
    return [offset for first, last in runs for offset in range(first, last + 1)]


@given(one=RUNS, other=RUNS)
def test_runs_are_sets(one: Runs, other: Runs) -> None:
    left, right = union(one), union(other)
    assert offsets(left) == sorted(set(offsets(one)))
    assert all(this[1] + 1 < after[0] for this, after in pairwise(left))
    assert set(offsets(common(left, right))) == set(offsets(left)) & set(offsets(right))
    assert set(offsets(without(left, right))) == set(offsets(left)) - set(offsets(right))
    assert length(left) == len(set(offsets(one)))
    assert offsets(repeated(one)) == sorted(each for each, count in Counter(offsets(one)).items() if count > 1)


def known(position: int = 0) -> JournalEvent:
    return JournalEvent("known", 0, 0, position - 1)


def given_to(member: str, first: int, last: int, event: str = "delivered", time: int = 1) -> JournalEvent:
    return JournalEvent(event, time, first, last, member, "app", "10.0.0.1")


def lease(event: str, first: int, last: int, time: int = 1) -> JournalEvent:
    return JournalEvent(event, time, first, last, "job", lease="L1")


def kinds(deviations: object) -> list[tuple[str, int, int]]:
    assert isinstance(deviations, list)
    return [(each.kind, each.first, each.last) for each in deviations]


def totals(counts: dict[int, Counter[str]]) -> Counter[str]:
    return sum(counts.values(), Counter())


EXISTS = [(0, 49, 0), (50, 99, 60)]


def landing(*more: JournalEvent, **changes: object) -> Found:
    events = [known(), lease("leased", 0, 99), lease("acknowledged", 0, 99), *more]
    found: dict[str, object] = {
        "events": events,
        "exists": EXISTS,
        "end": 100,
        "claimed": [(0, 99)],
        "landed": [(0, 99)],
    }
    return Found(**(found | changes))  # type: ignore[arg-type]


def test_everything_is_accounted_for() -> None:
    found = account(AuditState(), landing(), AuditRules())
    assert not found.deviations
    assert found.waiting == 0
    assert found.counts == {
        window: Counter(dict.fromkeys(("expected", "delivered", "acknowledged", "landed"), 50)) for window in (0, 60)
    }
    assert not (found.state.open or found.state.held or found.state.landed)
    assert found.state.floor == 100


def test_a_record_that_was_acknowledged_and_did_not_land() -> None:
    found = account(AuditState(), landing(landed=[(0, 41), (43, 99)]), AuditRules())
    (deviation,) = found.deviations
    assert (deviation.kind, deviation.first, deviation.last, deviation.window) == ("not_landed", 42, 42, 0)
    assert [line.split()[1:4] for line in deviation.story] == [
        ["leased", "0..99", "job"],
        ["acknowledged", "0..99", "job"],
    ]
    assert deviation.fails
    assert not account(found.state, landing(events=[], exists=[], landed=[]), AuditRules()).deviations, (
        "it is told once"
    )


def test_what_is_acknowledged_twice_are_records() -> None:
    """A marker at 10, aborted records from 98 on; the journal reports them before the audit looks at the log."""
    again = lease("acknowledged", 0, 99, time=2)
    exists = [(0, 9, 0), (11, 49, 0), (50, 97, 60)]
    found = account(AuditState(), landing(again, exists=exists), AuditRules(lands=False))
    twice = [each[1:] for each in kinds(found.deviations) if each[0] == "acknowledged_twice"]
    assert twice == [(0, 9), (11, 97)]
    assert totals(dict(found.counts))["twice"] == 97
    # Something below is open, so the acknowledgement above it is remembered.
    first = landing(exists=exists)
    begun = replace(first, events=[known(), lease("leased", 0, 99), lease("acknowledged", 5, 99)], claimed=[])
    before = account(AuditState(), begun, AuditRules(lands=False)).state
    more = [JournalEvent("empty", 3, 10, 10), JournalEvent("empty", 3, 98, 99), again]
    later = account(before, Found(events=more, end=100), AuditRules(lands=False))
    twice = [each[1:] for each in kinds(later.deviations) if each[0] == "acknowledged_twice"]
    assert (twice, totals(dict(later.counts))["twice"]) == ([(5, 9), (11, 97)], 92)


def test_a_record_that_landed_twice_also_much_later() -> None:
    twice = account(AuditState(), landing(landed=[(0, 99), (42, 42)]), AuditRules())
    assert kinds(twice.deviations) == [("landed_twice", 42, 42)]
    later = account(
        account(AuditState(), landing(), AuditRules()).state,
        Found(landed=[(7, 8)], end=100, claimed=[(0, 99)]),
        AuditRules(),
    )
    assert kinds(later.deviations) == [("landed_twice", 7, 8)]


def test_a_record_that_the_group_passed_over() -> None:
    events = [
        known(),
        given_to("m", 0, 41),
        given_to("m", 43, 99),
        given_to("m", 0, 41, "acknowledged"),
        given_to("m", 43, 99, "acknowledged"),
    ]
    found = account(AuditState(), landing(events=events, landed=[]), AuditRules())
    assert kinds(found.deviations) == [("missing", 42, 42)]
    assert totals(dict(found.counts))["missing"] == 1


def test_an_acknowledgement_of_what_was_never_held() -> None:
    events = [known(), given_to("m", 0, 41), given_to("m", 43, 99), given_to("m", 0, 99, "acknowledged")]
    found = account(AuditState(), landing(events=events, landed=[]), AuditRules())
    assert kinds(found.deviations) == [("not_held", 42, 42)]


def test_an_acknowledgement_of_what_another_holds() -> None:
    events = [known(), given_to("a", 0, 49), given_to("b", 50, 99), given_to("a", 0, 99, "acknowledged")]
    assert kinds(account(AuditState(), landing(events=events, landed=[]), AuditRules()).deviations) == [
        ("not_held", 50, 99)
    ]


def test_what_is_not_there_upstream_is_not_expected() -> None:
    """Compacted offsets, or a marker of a transaction."""
    found = account(AuditState(), landing(exists=[(0, 9, 0), (20, 98, 0)], landed=[(0, 9), (20, 98)]), AuditRules())
    assert not found.deviations
    assert totals(dict(found.counts))["expected"] == 89
    beyond = account(AuditState(), landing(exists=[(0, 9, 0), (20, 98, 0)], landed=[(0, 10), (20, 98)]), AuditRules())
    assert kinds(beyond.deviations) == [("not_upstream", 10, 10)]


def test_what_was_deleted_before_anybody_acknowledged_it() -> None:
    events = [known(), given_to("m", 0, 19), given_to("m", 0, 9, "acknowledged")]
    found = account(
        AuditState(), Found(events=events, exists=[(20, 99, 0)], start=20, end=100), AuditRules(lands=False)
    )
    assert kinds(found.deviations) == [("deleted", 10, 19)]
    assert found.waiting == 80


def test_what_had_no_record_when_the_mesh_read_it_is_not_said_to_be_deleted() -> None:
    """The log no longer shows that 4 was a marker and 10 to 14 were aborted; 15 was deleted unread."""
    events = [
        known(),
        given_to("m", 0, 3),
        JournalEvent("empty", 1, 4, 4),
        given_to("m", 5, 9),
        JournalEvent("empty", 2, 10, 14),
        JournalEvent("deleted", 3, 15, 15),
        given_to("m", 16, 19),
        *(given_to("m", *run, "acknowledged") for run in ((0, 3), (5, 9), (16, 19))),
    ]
    found = account(
        AuditState(), Found(events=events, exists=[(20, 99, 0)], start=20, end=100), AuditRules(lands=False)
    )
    assert kinds(found.deviations) == [("deleted", 15, 15)]
    assert any("deleted 15..15" in each for each in found.deviations[0].story)


def test_what_the_mesh_says_was_empty_is_missing_if_the_log_has_it() -> None:
    events = [known(), given_to("m", 0, 9), given_to("m", 0, 9, "acknowledged"), JournalEvent("empty", 1, 10, 19)]
    found = account(
        AuditState(), Found(events=events, exists=[(0, 19, 0)], end=20, claimed=[(0, 19)]), AuditRules(lands=False)
    )
    assert kinds(found.deviations) == [("missing", 10, 19)]


def test_what_was_acknowledged_is_nobodys_also_where_the_journal_has_holes() -> None:
    events = [known(), given_to("m", 0, 9), given_to("m", 0, 4, "acknowledged")]
    found = account(AuditState(), Found(events=events, exists=EXISTS, end=100), AuditRules(lands=False, is_whole=False))
    assert [each[2:4] for each in found.state.held] == [[5, 9]]


WAITS = Found(events=[known()], exists=[(0, 9, 0)], end=10)


def test_what_was_compacted_while_it_waited_is_told_and_no_loss() -> None:
    """0 to 3 still have a record; 4 to 9 no longer have any, and a member holds 8 and 9."""
    first = account(AuditState(), replace(WAITS, is_compacted=True), AuditRules(lands=False))
    assert first.waiting == 10
    events = [given_to("m", 0, 2), given_to("m", 8, 9), given_to("m", 0, 2, "acknowledged")]
    then = Found(events=events, end=10, claimed=[(0, 7)], is_compacted=True, still=[(0, 3)])
    found = account(first.state, then, AuditRules(lands=False))
    assert kinds(found.deviations) == [("compacted", 4, 7), ("missing", 3, 3)]
    assert [each.fails for each in found.deviations] == [False, True]
    assert (totals(dict(found.counts))["missing"], found.waiting) == (1, 2)
    after = [given_to("m", 8, 9, "acknowledged")]
    last = account(
        found.state, Found(events=after, end=10, claimed=[(0, 9)], is_compacted=True), AuditRules(lands=False)
    )
    assert (last.deviations, last.waiting) == ([], 0)


def test_what_was_deleted_while_it_waited_is_not_missing() -> None:
    first = account(AuditState(), WAITS, AuditRules(lands=False))
    events = [given_to("m", 0, 1), given_to("m", 4, 9), given_to("m", 4, 9, "acknowledged")]
    found = account(first.state, Found(events=events, start=4, end=10, claimed=[(0, 9)]), AuditRules(lands=False))
    assert kinds(found.deviations) == [("deleted", 2, 3), ("missing", 0, 1)], "the group went past what a member holds"
    assert totals(dict(found.counts))["missing"] == 2


def test_what_was_compacted_after_it_landed_is_upstream_no_more() -> None:
    found = landing(exists=[(0, 9, 0), (20, 98, 0)], landed=[(0, 99)])
    assert kinds(account(AuditState(), found, AuditRules()).deviations) == [
        ("not_upstream", 10, 19),
        ("not_upstream", 99, 99),
    ]
    assert not account(AuditState(), replace(found, is_compacted=True), AuditRules()).deviations
    beyond = replace(found, is_compacted=True, events=[known(), lease("leased", 0, 9), lease("acknowledged", 0, 9)])
    assert kinds(account(AuditState(), beyond, AuditRules()).deviations)[-2:] == [
        ("not_upstream", 10, 19),
        ("not_upstream", 99, 99),
    ]


def test_redelivered_and_dead_letters_are_counted_and_accounted_for() -> None:
    events = [
        known(),
        given_to("a", 0, 99),
        given_to("a", 0, 99, "expired"),
        given_to("b", 0, 9, "redelivered"),
        given_to("b", 0, 9, "acknowledged"),
        JournalEvent("dead_lettered", 5, 10, 10, "a"),
        given_to("b", 11, 99, "redelivered"),
        given_to("b", 11, 99, "acknowledged"),
    ]
    found = account(AuditState(), landing(events=events, landed=[]), AuditRules())
    assert not found.deviations
    counted = totals(dict(found.counts))
    assert (counted["redelivered"], counted["dead_lettered"], counted["acknowledged"]) == (99, 1, 99)


def test_a_killed_process_took_some_of_the_journal_with_it() -> None:
    events = [known(), given_to("a", 0, 99), known(50), given_to("a", 50, 99), given_to("a", 50, 99, "acknowledged")]
    found = account(AuditState(), landing(events=events, landed=[]), AuditRules())
    assert kinds(found.deviations) == [("unjournalled", 0, 49)]
    in_order = [*events[:2], JournalEvent("revoked", 2, 0, -1), *events[2:]]
    assert kinds(account(AuditState(), landing(events=in_order, landed=[]), AuditRules()).deviations) == [
        ("missing", 0, 49)
    ]


def test_what_was_known_of_a_log_that_was_truncated_is_not_expected() -> None:
    """Of the 99 records, 50 to 99 belonged to a truncated log; 50 to 69 are other records by now."""
    first = [known(), given_to("a", 0, 99), given_to("a", 0, 79, "acknowledged")]
    second = [JournalEvent("truncated", 2, 50, 99), given_to("b", 50, 69), given_to("b", 50, 69, "acknowledged")]
    log = Found(events=[*first, *second], exists=[(0, 69, 0)], end=70, claimed=[(0, 69)])
    found = account(AuditState(), log, AuditRules(lands=False))
    assert not found.deviations
    assert (found.waiting, totals(dict(found.counts))["acknowledged"]) == (0, 70)
    before = account(
        AuditState(), replace(log, events=first, exists=[(0, 99, 0)], end=100, claimed=[]), AuditRules(lands=False)
    )
    assert before.waiting == 20
    after = account(before.state, replace(log, events=second, exists=[]), AuditRules(lands=False))
    assert not after.deviations
    assert (after.waiting, after.state.seen) == (0, 70)


def test_what_was_settled_before_the_journal_is_not_expected() -> None:
    events = [known(30), JournalEvent("known", 0, 40, 49), lease("leased", 30, 39), lease("leased", 50, 99)]
    events += [lease("acknowledged", 30, 39), lease("acknowledged", 50, 99)]
    found = account(AuditState(), landing(events=events, landed=[(0, 39), (50, 99)]), AuditRules())
    assert not found.deviations
    assert totals(dict(found.counts))["expected"] == 60


def test_what_members_acknowledge_lands_only_if_that_is_asked() -> None:
    events = [known(), given_to("m", 0, 99), given_to("m", 0, 99, "acknowledged")]
    assert not account(AuditState(), landing(events=events, landed=[]), AuditRules()).deviations
    found = account(AuditState(), landing(events=events, landed=[]), AuditRules(leases_only=False))
    assert kinds(found.deviations) == [("not_landed", 0, 99)]


@given(
    steps=st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 90), max_size=4),
    wrong=st.sampled_from(["", "not_landed", "landed_twice", "missing", "not_held"]),
    at=st.integers(0, 1_000),
)
def test_several_audits_find_what_one_finds(
    steps: list[tuple[int, bool, int]], cuts: list[int], wrong: str, at: int
) -> None:
    """Each run of offsets is leased, given back or not, leased again, landed, acknowledged; one step goes wrong."""
    told: list[tuple[str, object]] = [("event", known())]
    position = 0
    victim = at % len(steps)
    for number, (count, fails, gap) in enumerate(steps):
        first, last = position, position + count - 1
        goes_wrong = wrong if number == victim else ""
        told.append(("exists", (first, last, 10 * (number // 5))))
        if fails:
            told += [("event", lease("leased", first, last)), ("event", lease("expired", first, last))]
        if goes_wrong != "not_held":
            told.append(("event", lease("leased", first, last)))
        if goes_wrong != "not_landed":
            told.append(("landed", (first, last)))
        if goes_wrong == "landed_twice":
            told.append(("landed", (last, last)))
        if goes_wrong != "missing":
            told.append(("event", lease("acknowledged", first, last)))
        elif told[-1][0] == "landed":
            told.pop()
        told.append(("claimed", last))
        position = last + 1 + gap
    found: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    state = AuditState()
    claimed = -1
    ends = [*sorted(cut for cut in cuts if cut < len(told)), len(told)]
    begin = 0
    for end in ends:
        part = told[begin:end]
        begin = end
        claimed = max([claimed, *(int(str(each)) for kind, each in part if kind == "claimed")])
        exists = [each for kind, each in part if kind == "exists"]
        result = account(
            state,
            Found(
                events=[each for kind, each in part if kind == "event"],  # type: ignore[misc]
                exists=exists,  # type: ignore[arg-type]
                end=max([state.seen, *(each[1] + 1 for each in exists)]),  # type: ignore[index]
                claimed=[(0, claimed)] if claimed >= 0 else [],
                landed=[each for kind, each in part if kind == "landed"],  # type: ignore[misc]
            ),
            AuditRules(),
        )
        state = result.state
        found.update({each.kind: each.last - each.first + 1 for each in result.deviations})
        counts += totals(dict(result.counts))
    size = steps[victim][0]
    expected = {wrong: 1 if wrong == "landed_twice" else size} if wrong else {}
    assert found == expected
    assert counts["expected"] == sum(count for count, _, _ in steps)
    assert counts["acknowledged"] == counts["expected"] - (size if wrong == "missing" else 0)
    assert not state.open or wrong == "not_landed"
    assert isinstance(result.deviations, list | tuple)
    assert all(isinstance(each, Deviation) for each in result.deviations)
