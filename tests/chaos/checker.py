"""The independent checker: it compares stored records, the members' journals and the disturbances.

It knows nothing of the mesh, nor of the code that feeds and runs members. It accepts what docs/guarantees.md allows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf

from tests.chaos.evidence import (
    BUFFERED,
    IN_HAND,
    SLOT_BITS,
    STORING,
    Delivery,
    Evidence,
    Finding,
    Kind,
    Original,
    Place,
    Verdict,
)


def check(evidence: Evidence) -> Verdict:
    """All problems; it leaves none out because it has already found another."""
    return _Check(evidence).verdict()


class _Check:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._by_id: dict[str, list[Delivery]] = defaultdict(list)
        for delivery in evidence.deliveries:
            self._by_id[delivery.id].append(delivery)
        self._answered = _Answered(evidence)
        self._given = _Given(evidence)
        self._again = self._ordered = 0

    def verdict(self) -> Verdict:
        evidence = self._evidence
        findings = [
            *self._lost(),
            *self._contents(),
            *self._repeated(),
            *self._order(),
            *self._dead(),
        ]
        stored = sum(original.copies > 0 for original in evidence.originals.values())
        certain = sum(self._answered.when(delivery) is not None for delivery in evidence.deliveries)
        dead = len(evidence.dead_letters)
        return Verdict(stored, len(evidence.deliveries), certain, self._again, dead, self._ordered, findings)

    def _lost(self) -> Iterator[Finding]:
        dead = {letter.id for letter in self._evidence.dead_letters}
        for identity, original in self._evidence.originals.items():
            if original.copies and identity not in self._by_id and identity not in dead:
                yield Finding(Kind.LOST, identity, f"at {_where(original)}")

    def _contents(self) -> Iterator[Finding]:
        for delivery in self._evidence.deliveries:
            original = self._evidence.originals.get(delivery.id)
            if original is None or not original.may_come:
                yield Finding(Kind.NEVER_STORED, delivery.id, f"to {delivery.member}")
            elif delivery.hash not in original.hashes:
                yield Finding(Kind.ALTERED, delivery.id, f"to {delivery.member}")

    def _repeated(self) -> Iterator[Finding]:
        for identity, several in self._by_id.items():
            original = self._evidence.originals.get(identity)
            if len(several) < 2 or original is None or original.copies > 1:
                continue
            self._again += 1
            timed = sorted(several, key=lambda each: (each.at is not None, each.at or 0.0))
            for before, after in pairwise(timed):
                if (finding := self._repetition(original, before, after)) is not None:
                    yield finding

    def _repetition(self, original: Original, before: Delivery, after: Delivery) -> Finding | None:
        shown = f"at {_where(original)}: to {_shown(before)}, then to {_shown(after)}"
        if after.at is not None and after.at >= self._evidence.clean_from:
            return Finding(Kind.TWICE, before.id, f"{shown}; all had been committed")
        if before.at is None or after.at is None:
            touched = any(
                each.members is None or {before.member, after.member} & each.members
                for each in self._evidence.disturbances
            )
            return None if touched else Finding(Kind.TWICE, before.id, shown)
        answered = self._answered.when(before)
        if answered is not None and answered < after.at:
            if self._is_forgotten(original, before, answered, after.at):
                return None
            if self._was_buffered(after, after.at, before.at):
                return None
            return Finding(Kind.ACKNOWLEDGED, before.id, f"{shown}; answered at {answered:.3f}")
        if any(each.touches((before.member,), before.at, after.at) for each in self._evidence.disturbances):
            return None
        return Finding(Kind.TWICE, before.id, shown)

    def _is_forgotten(self, original: Original, before: Delivery, answered: float, again: float) -> bool:
        """A commit is answered without being stored while the record's cluster is down, and is lost if the mesh is
        killed before that is back; one that comes after its member lost the record changes nothing."""
        if self._was_kept(before):
            return True
        for down in self._evidence.disturbances:
            stored = min(down.back + STORING, down.end)
            if original.cluster in down.clusters and down.begin <= answered <= stored:
                last = min(again, stored)
                if any(
                    each.forgets and each.begin <= last and answered <= each.end for each in self._evidence.disturbances
                ):
                    return True
        return False

    def _was_kept(self, delivery: Delivery) -> bool:
        """True if its member has shown a record that it had fetched before its mesh lost the partition."""
        if delivery.member not in self._evidence.keeping or delivery.at is None:
            return False
        since = max(delivery.at - BUFFERED, self._given.after(delivery))
        given = [each for each in self._evidence.assignments.get(delivery.member, ()) if since <= each <= delivery.at]
        return any(
            each.forgets and each.begin <= at <= each.end for each in self._evidence.disturbances for at in given
        )

    def _was_buffered(self, late: Delivery, at: float, taken: float) -> bool:
        """True if its member had fetched it, lost it to another one in a disturbance, and processed it only afterwards:
        it got no new partitions since, or keeps fetched records all the same."""
        since = max(self._emptied(late.member, at), at - BUFFERED)
        fetched = max(since, self._given.after(late))
        return fetched <= taken and any(
            # While partitions change hands this may happen more than once.
            each.touches((late.member,), fetched, taken) and (each.forgets or each.begin >= since)
            for each in self._evidence.disturbances
        )

    def _order(self) -> Iterator[Finding]:
        highest: dict[tuple[str, Place], Delivery] = {}
        offsets: dict[tuple[str, Place], int] = defaultdict(lambda: -1)
        for delivery in self._evidence.deliveries:
            original = self._evidence.originals.get(delivery.id)
            if original is None or original.place is None or original.copies != 1 or delivery.at is None:
                continue
            if delivery.member in self._evidence.sharing:
                continue  # no promise
            if any(each.at is None or each.at < delivery.at for each in self._by_id[delivery.id]):
                continue  # not the first delivery
            key = (delivery.member, original.place)
            before, offset = highest.get(key, delivery), offsets[key]
            is_judged = key in highest and not self._was_given_before(before, delivery.at)
            self._ordered += is_judged
            if original.offset > offset:
                highest[key], offsets[key] = delivery, original.offset
            elif is_judged:
                yield Finding(Kind.ORDER, delivery.id, f"at {_where(original)}: to {_shown(delivery)} after {offset}")

    def _was_given_before(self, before: Delivery, end: float) -> bool:
        """True if a member may have held the record of `end` without a journal entry, and have lost it, after `before`
        was given to the member that shows both; that member may have kept both in its buffer."""
        assert before.at is not None
        if end >= self._evidence.clean_from:
            return False  # no member held anything
        begin = max(before.at - BUFFERED, self._given.after(before), self._emptied(before.member, before.at))
        return any(each.begin <= end and begin <= each.end for each in self._evidence.disturbances)

    def _emptied(self, member: str, at: float) -> float:
        """The last time at which its client discarded fetched records, before it was polled for those shown then."""
        if member in self._evidence.keeping:
            return -inf
        given = self._evidence.assignments.get(member, ())
        return max((each for each in given if each <= at - IN_HAND), default=-inf)

    def _dead(self) -> Iterator[Finding]:
        found = {letter.id: letter for letter in self._evidence.dead_letters}
        for identity in self._evidence.poison - found.keys():
            yield Finding(Kind.DEAD_LETTER, identity, "kills its members and is no dead letter")
        for identity, letter in found.items():
            original = self._evidence.originals.get(identity)
            if original is None or not original.may_come:
                yield Finding(Kind.DEAD_LETTER, identity, "was never stored")
                continue
            if letter.hash not in original.hashes:
                yield Finding(Kind.DEAD_LETTER, identity, "was altered")
            done = [each for each in self._by_id[identity] if self._answered.when(each) is not None]
            if done:
                yield Finding(Kind.DEAD_LETTER, identity, f"was committed by {done[0].member}")


class _Given:
    """When a member got a record: not before the test had produced the records that the member got at lower offsets."""

    def __init__(self, evidence: Evidence) -> None:
        self._after: dict[tuple[str, int, int], float] = {}
        latest: dict[tuple[str, int, int], float] = {}
        for each in sorted(evidence.deliveries, key=lambda each: each.offset):
            original = evidence.originals.get(each.id)
            if each.member in evidence.sharing:
                self._after[each.member, each.partition, each.offset] = -inf if original is None else original.fed
                continue
            slot = (each.member, each.partition, each.offset >> SLOT_BITS)
            latest[slot] = max(latest.get(slot, -inf), -inf if original is None else original.fed)
            self._after[each.member, each.partition, each.offset] = latest[slot]

    def after(self, delivery: Delivery) -> float:
        """A lower bound."""
        return self._after[delivery.member, delivery.partition, delivery.offset]


class _Answered:
    """When the commit of a delivery was answered."""

    def __init__(self, evidence: Evidence) -> None:
        self._assignments = {member: self._with_loss(member, evidence) for member in evidence.assignments}
        by_slot: dict[tuple[str, int, int], list[tuple[float, int]]] = defaultdict(list)
        for commit in evidence.commits:
            for partition, offset in commit.offsets.items():
                by_slot[commit.member, partition, (offset - 1) >> SLOT_BITS].append((commit.at, offset))
        self._sharing = evidence.sharing
        self._told: dict[tuple[str, int, int], list[float]] = defaultdict(list)
        for each in evidence.acknowledgements:
            self._told[each.member, each.partition, each.offset].append(each.at)
        # Offsets of one slot rise, and so do the times of one journal.
        self._by_slot = {key: sorted(several) for key, several in by_slot.items()}
        self._offsets = {key: [offset for _, offset in several] for key, several in self._by_slot.items()}

    @staticmethod
    def _with_loss(member: str, evidence: Evidence) -> Sequence[float]:
        """When it got partitions because a disturbance had taken them from it."""
        assigned = evidence.assignments[member]
        return [at for at in assigned if any(each.touches((member,), at, at) for each in evidence.disturbances)]

    def when(self, delivery: Delivery) -> float | None:
        """The time of its answer; None if there is none in the journal."""
        if delivery.member in self._sharing:
            told = self._told.get((delivery.member, delivery.partition, delivery.offset), ())
            return min((at for at in told if delivery.at is None or at >= delivery.at), default=None)
        key = (delivery.member, delivery.partition, delivery.offset >> SLOT_BITS)
        offsets = self._offsets.get(key)
        if offsets is None:
            return None
        start = bisect_right(offsets, delivery.offset)
        later = (at for at, _ in self._by_slot[key][start:] if delivery.at is None or at >= delivery.at)
        answered = next(later, None)
        if answered is None or delivery.at is None:
            return answered
        return (
            None if any(delivery.at < at < answered for at in self._assignments.get(delivery.member, ())) else answered
        )


def _where(original: Original) -> str:
    return "a place unknown" if original.place is None else f"{'/'.join(map(str, original.place))}@{original.offset}"


def _shown(delivery: Delivery) -> str:
    at = "?" if delivery.at is None else f"{delivery.at:.3f}"
    return (
        f"{delivery.member} ({delivery.partition}, {delivery.offset >> SLOT_BITS}:{delivery.offset & 0xFFFFFFFF}, {at})"
    )
