"""The histories of spans: by examples, and against a model of each single offset."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.pipelines.audit.accounts import JournalEvent
from mesh.pipelines.audit.histories import ENDED, Fact, facts


def test_what_was_delivered_waits_is_held_and_is_acknowledged() -> None:
    events = [
        JournalEvent("delivered", 1_000, 10, 19, "a", deliveries=1, produced=900),
        JournalEvent("acknowledged", 1_500, 10, 13, "a"),
        JournalEvent("expired", 2_000, 14, 19, "a", deliveries=1),
        JournalEvent("redelivered", 2_100, 14, 19, "b", deliveries=2, produced=900),
        JournalEvent("acknowledged", 2_200, 14, 18, "b"),
        JournalEvent("dead_lettered", 2_300, 19, 19, "b"),
        JournalEvent("delivered", 2_400, 20, 20, "b", deliveries=1, produced=900),
        JournalEvent("given_up", 2_500, 20, 20, "b"),
    ]
    assert list(facts(events, 9_000)) == [
        Fact("delivered", 1_000, "a", 10, waited=100),
        Fact("acknowledged", 1_500, "a", 4, held=500, whole=600),
        Fact("expired", 2_000, "a", 6, held=1_000),
        Fact("redelivered", 2_100, "b", 6),
        Fact("acknowledged", 2_200, "b", 5, held=100, whole=1_300),
        Fact("dead_lettered", 2_300, "b", 1, held=200),
        Fact("delivered", 2_400, "b", 1, waited=1_500),
        Fact("given_up", 2_500, "b", 1, held=100),
    ]


def test_what_is_held_at_the_end_is_open_and_what_is_void_is_nobodys() -> None:
    events = [
        JournalEvent("delivered", 1_000, 0, 9, "a", produced=2_000),
        JournalEvent("revoked", 1_100, 0, -1),
        JournalEvent("delivered", 1_200, 0, 9, "b"),
        JournalEvent("known", 1_300, 0, 4),
        JournalEvent("corrected", 1_400, 7, 9, "c"),
    ]
    assert list(facts(events, 5_000)) == [
        Fact("delivered", 1_000, "a", 10, waited=0),
        Fact("revoked", 1_100, "a", 10, held=100),
        Fact("delivered", 1_200, "b", 10),
        Fact("open", 5_000, "b", 2, held=3_800),
        Fact("open", 5_000, "c", 3, held=3_800),
    ]


def test_a_lease_that_is_told_once_more_goes_on() -> None:
    lease: dict[str, Any] = {"member": "job", "lease": "L", "deliveries": 1}
    events = [
        JournalEvent("leased", 1_000, 0, 9, **lease),
        JournalEvent("leased", 3_000, 0, 11, **lease),
        JournalEvent("acknowledged", 4_000, 0, 11, **lease),
    ]
    assert list(facts(events, 5_000)) == [
        Fact("delivered", 1_000, "job", 10),
        Fact("delivered", 3_000, "job", 2),
        Fact("acknowledged", 4_000, "job", 10, held=3_000),
        Fact("acknowledged", 4_000, "job", 2, held=1_000),
    ]


def test_offsets_without_records_count_nowhere_whenever_that_is_told() -> None:
    lease: dict[str, Any] = {"member": "job", "lease": "L", "deliveries": 1}
    about = [
        JournalEvent("delivered", 1_000, 0, 9, "a", produced=900),
        JournalEvent("acknowledged", 1_100, 0, 4, "a"),
        JournalEvent("leased", 1_100, 10, 29, **lease),
        JournalEvent("acknowledged", 1_200, 10, 29, **lease),
        JournalEvent("acknowledged", 1_300, 30, 30, "b"),
    ]
    empty = [JournalEvent("empty", 1_000, 3, 5), JournalEvent("empty", 1_000, 29, 30)]
    expected = [
        Fact("delivered", 1_000, "a", 7, waited=100),
        Fact("acknowledged", 1_100, "a", 3, held=100, whole=200),
        Fact("delivered", 1_100, "job", 19),
        Fact("acknowledged", 1_200, "job", 19, held=100),
        Fact("open", 9_000, "a", 4, held=8_000),
    ]
    for at in range(len(about) + 1):
        assert list(facts([*about[:at], *empty, *about[at:]], 9_000)) == expected


def test_a_member_that_holds_only_offsets_without_records_holds_nothing() -> None:
    events = [JournalEvent("delivered", 1_000, 0, 9, "a"), JournalEvent("acknowledged", 1_100, 0, 7, "a")]
    assert [each.kind for each in facts([*events, JournalEvent("empty", 1_200, 8, 9)], 9_000)] == [
        "delivered",
        "acknowledged",
    ]


def test_what_has_no_record_in_one_log_may_have_one_in_the_log_after_it() -> None:
    def given(time: int) -> JournalEvent:
        return JournalEvent("delivered", time, 0, 9, "a")

    events = [
        *(given(1_000), JournalEvent("empty", 1_000, 2, 2), JournalEvent("empty", 1_000, 7, 9)),
        *(JournalEvent("truncated", 2_000, 5, 9), given(2_000), JournalEvent("empty", 2_000, 6, 6)),
        *(JournalEvent("reset", 3_000, 0, -1), given(3_000), JournalEvent("empty", 3_000, 0, 4)),
    ]
    assert [(each.kind, each.records) for each in facts(events, 3_000)] == [
        *(("delivered", 6), ("revoked", 2)),
        *(("delivered", 8), ("revoked", 8)),
        *(("delivered", 5), ("open", 5)),
    ]


KINDS = ["delivered", "redelivered", "corrected", "known", "revoked", "reset", "truncated", "empty", *sorted(ENDED)]
EVENTS = st.lists(
    st.tuples(
        *(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 30), st.sampled_from("abc")),
        *(st.integers(0, 50), st.integers(-1, 60)),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(EVENTS)
def test_spans_say_what_single_offsets_would(drawn: list[tuple[str, int, int, str, int, int]]) -> None:
    events, now = [], 0
    for kind, first, wide, who, later, produced in drawn:
        now += later
        events.append(JournalEvent(kind, now, first, first + wide - 1, who, produced=produced))
    found: Counter[Any] = Counter()
    for fact in facts(events, now + 1):
        found[fact.kind, fact.time, fact.who, fact.waited, fact.held, fact.whole] += fact.records
    assert found == of_each_offset(events, now + 1)


def of_each_offset(events: list[JournalEvent], until: int) -> Counter[Any]:
    found: Counter[Any] = Counter()
    held: dict[int, tuple[str, int, int]] = {}
    empty = empty_offsets(events)
    for at, each in enumerate(events):
        if each.event in {"revoked", "reset"}:
            for offset, (who, since, _) in held.items():
                found["revoked", each.time, who, -1, each.time - since, -1] += (at - 1, offset) not in empty
            held.clear()
            continue
        for offset in range(each.first, each.last + 1):
            if each.event == "truncated" and offset in held:
                holder, since, _ = held.pop(offset)
                found["revoked", each.time, holder, -1, each.time - since, -1] += (at - 1, offset) not in empty
            who, since, produced = held.get(offset, (each.member, -1, -1))
            if each.event in {"delivered", "redelivered"}:
                first_time = each.event == "delivered" and each.produced >= 0
                waited = max(each.time - each.produced, 0) if first_time else -1
                found[each.event, each.time, each.member, waited, -1, -1] += (at, offset) not in empty
                held[offset] = each.member, each.time, each.produced
            elif each.event == "corrected" and offset in held:
                held[offset] = each.member, since, produced
            elif each.event in ENDED:
                known = each.event == "acknowledged" and produced >= 0
                whole = max(each.time - produced, 0) if known else -1
                held_for = each.time - since if since >= 0 else -1
                found[each.event, each.time, who, -1, held_for, whole] += (at, offset) not in empty
                held.pop(offset, None)
            elif each.event == "known":
                held.pop(offset, None)
    at_the_end: dict[tuple[str, int], int] = defaultdict(int)
    for offset, (who, since, _) in held.items():
        at_the_end[who, since] += (len(events) - 1, offset) not in empty
    for (who, since), records in at_the_end.items():
        found["open", until, who, -1, until - since, -1] += records
    return +found


def empty_offsets(events: list[JournalEvent]) -> set[tuple[int, int]]:
    """Event number and offset, if the log of that time has no record there."""
    found: set[tuple[int, int]] = set()
    for offset in range(60):
        incarnations = [0]
        for each in events:
            is_another = each.event == "reset" or (each.event == "truncated" and each.first <= min(offset, each.last))
            incarnations.append(incarnations[-1] + is_another)
        empty = {
            life
            for each, life in zip(events, incarnations[1:], strict=True)
            if each.event == "empty" and each.first <= offset <= each.last
        }
        found.update((at, offset) for at, life in enumerate(incarnations[1:]) if life in empty)
    return found
