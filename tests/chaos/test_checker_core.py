"""The checker finds each kind of planted fault, and nothing without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.chaos.checker import check
from tests.chaos.evidence import (
    Acknowledgement,
    Commit,
    DeadLetter,
    Delivery,
    Disturbance,
    Evidence,
    Finding,
    Kind,
    Original,
)

SLOT = 7 << 32
PLACE = ("eu", "orders", 0)
IDS = [f"record-{number}" for number in range(6)]


def good() -> Evidence:
    """Six records of one partition: two members get three each, in order, and commit them."""
    originals = {
        identity: Original(frozenset({f"hash of {identity}"}), place=PLACE, offset=number)
        for number, identity in enumerate(IDS)
    }
    deliveries = [delivered(number, "a" if number < 3 else "b") for number in range(6)]
    commits = [Commit("a", 10.0, {0: SLOT + 3}), Commit("b", 10.0, {0: SLOT + 6})]
    return Evidence(originals, deliveries, commits)


def delivered(number: int, member: str, at: float | None = None) -> Delivery:
    identity = IDS[number]
    return Delivery(member, float(number) if at is None else at, 0, SLOT + number, identity, f"hash of {identity}")


def killed(member: str, at: float) -> Disturbance:
    return Disturbance("kill -9", at, at + 5.0, frozenset({member}))


def fed(evidence: Evidence, number: int, at: float) -> Evidence:
    original = replace(evidence.originals[IDS[number]], fed=at)
    return replace(evidence, originals={**evidence.originals, IDS[number]: original})


def found(evidence: Evidence) -> list[tuple[Kind, str]]:
    return [(finding.kind, finding.id) for finding in check(evidence).findings]


def with_deliveries(evidence: Evidence, *more: Delivery, without: Sequence[str] = ()) -> Evidence:
    kept = [each for each in evidence.deliveries if each.id not in without]
    return replace(evidence, deliveries=[*kept, *more])


def test_nothing_is_found_where_all_is_well() -> None:
    verdict = check(good())
    assert verdict.findings == []
    assert (verdict.stored, verdict.delivered, verdict.committed, verdict.again) == (6, 6, 6, 0)


def test_loss() -> None:
    assert found(with_deliveries(good(), without=[IDS[4]])) == [(Kind.LOST, IDS[4])]


def test_what_compaction_removed_is_not_lost() -> None:
    evidence = good()
    removed = replace(evidence.originals[IDS[4]], copies=0, place=None)
    evidence = replace(evidence, originals={**evidence.originals, IDS[4]: removed})
    assert found(with_deliveries(evidence, without=[IDS[4]])) == []
    assert found(evidence) == []


def test_alteration() -> None:
    altered = replace(delivered(2, "a"), hash="another")
    assert found(with_deliveries(good(), altered, without=[IDS[2]]))[0] == (Kind.ALTERED, IDS[2])


def test_record_that_was_never_stored() -> None:
    stranger = replace(delivered(2, "a"), id="nobody's")
    assert found(with_deliveries(good(), stranger)) == [(Kind.NEVER_STORED, "nobody's")]


def test_aborted_record() -> None:
    evidence = good()
    aborted = replace(evidence.originals[IDS[5]], copies=0, place=None, may_come=False)
    assert found(replace(evidence, originals={**evidence.originals, IDS[5]: aborted})) == [(Kind.NEVER_STORED, IDS[5])]


def test_duplicate_without_a_cause() -> None:
    twice = with_deliveries(replace(good(), commits=[]), delivered(5, "a", at=8.0))
    assert found(twice) == [(Kind.TWICE, IDS[5])]


@pytest.mark.parametrize(
    ("disturbance", "is_cause"),
    [
        (killed("b", 6.0), True),
        (killed("a", 6.0), False),
        (Disturbance("the mesh is killed", 6.0, 7.0), True),
        (killed("b", 9.0), False),
        (Disturbance("long ago", 0.0, 4.0), False),
    ],
    ids=["its member", "another member", "all members", "after it", "before it"],
)
def test_duplicate_is_excused_by_what_took_it_from_its_member(disturbance: Disturbance, is_cause: bool) -> None:
    """Record 5 comes to b at 5.0, and to a at 8.0."""
    twice = with_deliveries(replace(good(), commits=[], disturbances=[disturbance]), delivered(5, "a", at=8.0))
    assert found(twice) == ([] if is_cause else [(Kind.TWICE, IDS[5])])
    assert check(twice).again == 1


def test_duplicate_to_a_member_that_tells_no_times() -> None:
    timeless = replace(delivered(5, "kcat"), at=None)
    twice = with_deliveries(replace(good(), commits=[]), timeless)
    assert found(twice) == [(Kind.TWICE, IDS[5])]
    assert found(replace(twice, disturbances=[killed("kcat", 1.0)])) == []


def test_duplicate_of_what_is_stored_twice() -> None:
    evidence = good()
    originals = {**evidence.originals, IDS[5]: replace(evidence.originals[IDS[5]], copies=2)}
    assert found(with_deliveries(replace(evidence, originals=originals), delivered(5, "a", at=12.0))) == []


def test_false_acknowledgement() -> None:
    """No disturbance excuses a delivery after the record's commit was answered."""
    evidence = replace(
        good(), disturbances=[killed("b", 6.0), Disturbance("the mesh is killed", 9.0, 30.0, forgets=True)]
    )
    assert found(with_deliveries(evidence, delivered(5, "a", at=12.0))) == [(Kind.ACKNOWLEDGED, IDS[5])]


@pytest.mark.parametrize(
    ("assigned", "disturbed", "is_cause"),
    [(1.0, 2.0, True), (1.0, 6.0, False), (3.0, 2.0, False), (7.0, 2.0, False)],
    ids=["lost before", "lost after", "given partitions since", "given partitions meanwhile"],
)
def test_what_a_member_had_fetched_and_lost_may_come_late(assigned: float, disturbed: float, is_cause: bool) -> None:
    """Record 5 comes to b at 5.0, which commits it at 10.0; a shows it at 12.0."""
    evidence = replace(good(), assignments={"a": [assigned]}, disturbances=[killed("a", disturbed)])
    expected = [] if is_cause else [(Kind.ACKNOWLEDGED, IDS[5])]
    assert found(with_deliveries(evidence, delivered(5, "a", at=12.0))) == expected


@pytest.mark.parametrize(("begin", "end", "is_cause"), [(2.0, 7.0, True), (2.0, 2.5, False), (6.0, 9.0, False)])
def test_what_was_fetched_while_partitions_change_hands_may_come_late(begin: float, end: float, is_cause: bool) -> None:
    """a, which got partitions at 3.0, may have lost them again before b shows the record at 5.0."""
    moving = Disturbance("all starts", begin, end, forgets=True)
    evidence = replace(good(), assignments={"a": [3.0]}, disturbances=[moving])
    expected = [] if is_cause else [(Kind.ACKNOWLEDGED, IDS[5])]
    assert found(with_deliveries(evidence, delivered(5, "a", at=12.0))) == expected


@pytest.mark.parametrize(
    ("assigned", "disturbed", "is_cause"),
    [(3.0, 2.0, True), (7.0, 2.0, True), (3.0, 6.0, False), (3.0, -50.0, False)],
    ids=["given partitions since", "given partitions meanwhile", "lost after", "longer ago than a buffer lasts"],
)
def test_what_a_client_has_kept_may_come_late(assigned: float, disturbed: float, is_cause: bool) -> None:
    """As before, but its client keeps its fetched records when it gets a new assignment."""
    evidence = replace(good(), assignments={"a": [assigned]}, disturbances=[killed("a", disturbed)])
    evidence = with_deliveries(replace(evidence, keeping=frozenset({"a"})), delivered(5, "a", at=12.0))
    assert found(evidence) == ([] if is_cause else [(Kind.ACKNOWLEDGED, IDS[5])])


@pytest.mark.parametrize(
    ("number", "fed_at", "is_cause"),
    [(5, 4.9, True), (5, 5.1, False), (0, 5.1, False), (2, 5.1, True)],
    ids=["fed before", "fed since", "behind what was fed since", "before what was fed since"],
)
def test_what_came_to_a_member_after_it_was_anothers_was_in_no_buffer(
    number: int, fed_at: float, is_cause: bool
) -> None:
    """As before: b shows the record at 5.0, and a at 12.0; a got it after record 0 and before record 2."""
    behind = replace(delivered(2, "a"), offset=SLOT + 8)
    evidence = replace(good(), assignments={"a": [-1.0]}, disturbances=[killed("a", 3.0)])
    evidence = replace(evidence, deliveries=[behind if each.id == IDS[2] else each for each in evidence.deliveries])
    late = replace(delivered(5, "a", at=12.0), offset=SLOT + 7)
    several = with_deliveries(fed(evidence, number, fed_at), late)
    assert found(several) == ([] if is_cause else [(Kind.ACKNOWLEDGED, IDS[5])])


def test_commit_of_another_slot_acknowledges_nothing() -> None:
    evidence = replace(good(), commits=[Commit("b", 10.0, {0: (8 << 32) + 1})], disturbances=[killed("b", 6.0)])
    assert found(with_deliveries(evidence, delivered(5, "a", at=12.0))) == []


def test_commit_below_a_record_does_not_acknowledge_it() -> None:
    evidence = replace(good(), commits=[Commit("b", 10.0, {0: SLOT + 5})], disturbances=[killed("b", 6.0)])
    assert found(with_deliveries(evidence, delivered(5, "a", at=12.0))) == []
    assert found(with_deliveries(evidence, delivered(4, "a", at=12.0))) == [(Kind.ACKNOWLEDGED, IDS[4])]


def test_commit_after_a_new_assignment_is_about_what_came_after_it() -> None:
    """The commit of the fourth was refused, the member joined again, and went on behind it."""
    evidence = with_deliveries(replace(good(), disturbances=[killed("b", 4.5)]), delivered(3, "a", at=12.0))
    assert found(evidence) == [(Kind.ACKNOWLEDGED, IDS[3])]
    late = replace(evidence, disturbances=[killed("b", 3.2)])
    assert found(replace(late, assignments={"b": [3.5]})) == []
    assert found(replace(late, assignments={"b": [2.5]})) == [(Kind.ACKNOWLEDGED, IDS[3])]


def test_new_assignment_for_which_nothing_was_lost_voids_nothing() -> None:
    """The member was asked to join again, and still held its records afterwards."""
    evidence = with_deliveries(replace(good(), disturbances=[killed("b", 4.5)]), delivered(3, "a", at=12.0))
    assert found(replace(evidence, assignments={"b": [3.5]})) == [(Kind.ACKNOWLEDGED, IDS[3])]
    other = replace(evidence, disturbances=[killed("a", 3.2), killed("b", 4.5)], assignments={"b": [3.5]})
    assert found(other) == [(Kind.ACKNOWLEDGED, IDS[3])], "another member lost something"


@pytest.mark.parametrize(("back", "died", "is_documented"), [(9.5, 11.0, True), (5.0, 11.0, False), (9.5, 14.0, False)])
def test_what_is_acknowledged_is_stored_soon_after_the_cluster_is_back(
    back: float, died: float, is_documented: bool
) -> None:
    """The commit is answered at 10.0; the outage excuses other problems until 25.0."""
    down = Disturbance("a broker is killed", 2.0, 25.0, clusters=frozenset({"eu"}), back=back)
    dead = Disturbance("the mesh is killed", died, 25.0, forgets=True)
    evidence = replace(good(), disturbances=[down, dead], assignments={"a": [11.5]})
    evidence = with_deliveries(evidence, delivered(5, "a", at=20.0))
    assert found(evidence) == ([] if is_documented else [(Kind.ACKNOWLEDGED, IDS[5])])


@pytest.mark.parametrize(("cluster", "is_documented"), [("eu", True), ("us", False)])
def test_acknowledgement_while_the_cluster_is_down_lasts_as_long_as_the_mesh(cluster: str, is_documented: bool) -> None:
    down = Disturbance("a broker is killed", 9.0, 15.0, clusters=frozenset({cluster}))
    dead = Disturbance("the mesh is killed", 11.0, 20.0, forgets=True)
    again = delivered(5, "a", at=12.0)
    expected = [] if is_documented else [(Kind.ACKNOWLEDGED, IDS[5])]
    assert found(with_deliveries(replace(good(), disturbances=[down, dead]), again)) == expected
    compacted = replace(good().originals[IDS[5]], copies=0, place=None, fed_to="eu")
    evidence = replace(good(), originals={**good().originals, IDS[5]: compacted}, disturbances=[down, dead])
    assert found(with_deliveries(evidence, again)) == expected, "it is not stored any more"
    assert found(with_deliveries(replace(good(), disturbances=[down]), again)) == [(Kind.ACKNOWLEDGED, IDS[5])]


def test_commit_of_what_a_client_has_kept_changes_nothing() -> None:
    """It got partitions again while they moved, and went on at its old position."""
    moved = Disturbance("a mesh comes", 3.0, 5.0, forgets=True)
    evidence = with_deliveries(replace(good(), disturbances=[moved]), delivered(5, "a", at=100.0))
    kept = replace(evidence, assignments={"b": [4.5]}, keeping=frozenset({"b"}))
    assert found(kept) == []
    assert found(replace(kept, keeping=frozenset())) == [(Kind.ACKNOWLEDGED, IDS[5])]
    assert found(replace(kept, assignments={"b": [2.5]})) == [(Kind.ACKNOWLEDGED, IDS[5])]
    assert found(fed(kept, 5, at=4.4)) == []
    assert found(fed(kept, 5, at=4.6)) == [(Kind.ACKNOWLEDGED, IDS[5])], "fetched since"
    assert found(fed(kept, 4, at=4.6)) == [(Kind.ACKNOWLEDGED, IDS[5])], "fetched behind what came since"


def test_order_break() -> None:
    evidence = good()
    swapped = [*evidence.deliveries[:3], delivered(4, "b", at=3.0), delivered(3, "b", at=4.0), evidence.deliveries[5]]
    broken = replace(evidence, deliveries=swapped)
    assert found(broken) == [(Kind.ORDER, IDS[3])]
    assert found(replace(broken, disturbances=[killed("c", 2.0)])) == []
    assert found(replace(broken, disturbances=[killed("c", -20.0)])) == [], "its buffer may have been full"
    assert found(replace(broken, disturbances=[killed("c", -70.0)])) == [(Kind.ORDER, IDS[3])]


def test_order_is_judged_where_nobody_can_have_lost_it() -> None:
    """b shows 4 at 3.0, and 3 at 4.0; another disturbance happened before that."""
    evidence = good()
    swapped = [*evidence.deliveries[:3], delivered(4, "b", at=3.0), delivered(3, "b", at=4.0), evidence.deliveries[5]]
    broken = replace(evidence, deliveries=swapped, disturbances=[killed("c", -4.0)])
    assert found(broken) == []
    assert check(broken).ordered == 0
    wrong = [(Kind.ORDER, IDS[3])]
    assert found(replace(broken, originals=fed(broken, 4, at=2.0).originals)) == wrong, "ended before 4 was fed"
    assert found(replace(broken, assignments={"b": [2.0]})) == wrong, "its buffer was emptied after it had ended"
    assert found(replace(broken, assignments={"b": [2.0]}, keeping=frozenset({"b"}))) == []
    assert found(replace(broken, clean_from=2.5)) == wrong, "everything had been committed"
    assert check(good()).ordered == 4, "all but the first one of each member"


def test_order_of_what_comes_again_is_nobodys() -> None:
    evidence = with_deliveries(replace(good(), commits=[], disturbances=[killed("a", 5.0)]), delivered(0, "b", at=9.0))
    assert found(evidence) == []


def test_after_everything_was_committed_nothing_is_excused() -> None:
    evidence = replace(good(), commits=[], disturbances=[killed("b", 6.0)], clean_from=7.0)
    assert found(with_deliveries(evidence, delivered(5, "a", at=8.0))) == [(Kind.TWICE, IDS[5])]


def test_dead_letters() -> None:
    poisoned = replace(good(), poison=frozenset({IDS[5]}), commits=[Commit("a", 10.0, {0: SLOT + 3})])
    whole = DeadLetter(IDS[5], f"hash of {IDS[5]}")
    assert found(poisoned) == [(Kind.DEAD_LETTER, IDS[5])]
    assert found(replace(poisoned, dead_letters=[whole])) == []
    assert found(replace(poisoned, dead_letters=[replace(whole, hash="another")])) == [(Kind.DEAD_LETTER, IDS[5])]
    assert found(replace(poisoned, dead_letters=[whole, replace(whole, id="nobody's")])) == [
        (Kind.DEAD_LETTER, "nobody's")
    ]


def test_dead_letter_that_nobody_processed_is_not_lost() -> None:
    evidence = replace(good(), dead_letters=[DeadLetter(IDS[4], f"hash of {IDS[4]}")])
    assert found(with_deliveries(evidence, without=[IDS[4]])) == []


def test_dead_letter_of_what_was_committed() -> None:
    evidence = replace(good(), dead_letters=[DeadLetter(IDS[4], f"hash of {IDS[4]}")])
    assert found(evidence) == [(Kind.DEAD_LETTER, IDS[4])]


def test_every_finding_is_shown() -> None:
    verdict = check(with_deliveries(good(), without=[IDS[4]]))
    assert str(Finding(Kind.LOST, IDS[4])) == f"lost: {IDS[4]}"
    assert f"lost: 1\n    {IDS[4]} at eu/orders/0@4" in str(verdict)


def shared() -> Evidence:
    """The same records. The second member is a share member: it gets them in another order, at the cluster's
    offsets."""
    evidence = good()
    mine = [Delivery("b", 5.0 - number, 0, number, IDS[number], f"hash of {IDS[number]}") for number in range(3, 6)]
    told = [Acknowledgement("b", 10.0, 0, number) for number in range(3, 6)]
    kept = [each for each in evidence.deliveries if each.member == "a"]
    return replace(
        evidence,
        deliveries=[*kept, *sorted(mine, key=lambda each: each.at or 0.0)],
        commits=evidence.commits[:1],
        acknowledgements=told,
        sharing=frozenset({"b"}),
    )


def test_a_share_member_has_records_in_any_order() -> None:
    verdict = check(shared())
    assert not verdict.findings, str(verdict)
    assert verdict.committed == 6


def test_false_acknowledgement_of_a_share_member() -> None:
    evidence = with_deliveries(shared(), delivered(4, "a", at=20.0))
    evidence = replace(evidence, disturbances=[killed("b", 15.0)])
    assert found(evidence) == [(Kind.ACKNOWLEDGED, IDS[4])]


def test_what_a_share_member_did_not_acknowledge_may_come_again_with_a_cause() -> None:
    evidence = with_deliveries(shared(), delivered(4, "a", at=20.0))
    others = [each for each in evidence.acknowledgements if each.offset != 4]
    evidence = replace(evidence, acknowledgements=others)
    assert found(evidence) == [(Kind.TWICE, IDS[4])]
    assert not found(replace(evidence, disturbances=[killed("b", 15.0)]))
