"""The independent checker: what was stored, what members journaled, when what was disturbed, and so what is wrong.

It knows nothing of the mesh, nor of how records are fed or members are run. Times are seconds of one clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from math import inf
from typing import TypeAlias

Place: TypeAlias = tuple[str, str, int]
"""Cluster, topic, partition."""

SLOT_BITS = 32
"""A commit is about the offsets of one slot: those that agree above these bits."""


BUFFERED = 60.0
"""Seconds for which a client may keep what it fetched before it shows it: while a commit waits for an answer, on a
busy machine."""


class Kind(Enum):
    LOST = "lost"
    NEVER_STORED = "delivered, but never stored"
    ALTERED = "delivered altered"
    TWICE = "delivered twice without a cause"
    ACKNOWLEDGED = "delivered again after its commit was answered"
    ORDER = "delivered out of order"
    DEAD_LETTER = "dead letters are wrong"


@dataclass(frozen=True, slots=True)
class Original:
    """A record that was fed.

    hashes: of all that a client may show of it. copies: how often it is stored; 0 when its transaction was aborted, or
    compaction removed it. place, offset: of one copy. may_come: whether it was ever to be read.
    """

    hashes: frozenset[str]
    copies: int = 1
    place: Place | None = None
    offset: int = -1
    may_come: bool = True


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record as a member journaled it; at: None for a member that tells no times."""

    member: str
    at: float | None
    partition: int
    offset: int
    id: str
    hash: str


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit whose answer was good: next offsets by partition."""

    member: str
    at: float
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Something was done from `begin` to `end` (which includes how long it may have effects) that takes away from
    members what they hold un-committed. members: whose; None for all of them.

    clusters: those that could store nothing meanwhile. forgets: the mesh lost its memory, or partitions changed hands:
    what it had acknowledged without having stored it comes again.
    """

    what: str
    begin: float
    end: float
    members: frozenset[str] | None = None
    clusters: frozenset[str] = frozenset()
    forgets: bool = False

    def touches(self, members: Iterable[str], begin: float, end: float) -> bool:
        concerned = self.members is None or not self.members.isdisjoint(members)
        return concerned and self.begin <= end and begin <= self.end


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: str
    hash: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """deliveries: each member's in the order of its journal. hung: members whose application stood still with records
    in its hands for so long that it loses them, whatever it commits later. poison: records that kill their members.

    keeping: members whose client keeps its position and what it has fetched when it is given partitions anew: of what
    went to another mesh its commit is answered, and changes nothing.
    assignments: when members were given partitions, which empties their clients' buffers; ascending. What they had not
    committed by then was taken from them: a later commit is about what came after it, though its offset is higher.
    clean_from: everything had been committed and all members had left: nothing older comes again from then on.
    """

    originals: Mapping[str, Original]
    deliveries: Sequence[Delivery]
    commits: Sequence[Commit] = ()
    disturbances: Sequence[Disturbance] = ()
    dead_letters: Sequence[DeadLetter] = ()
    poison: frozenset[str] = frozenset()
    hung: frozenset[str] = frozenset()
    keeping: frozenset[str] = frozenset()
    assignments: Mapping[str, Sequence[float]] = field(default_factory=dict)
    clean_from: float = inf


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    id: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.id} {self.text}".rstrip()


@dataclass(slots=True)
class Verdict:
    """again: records that came more than once with a cause."""

    stored: int
    delivered: int
    committed: int
    again: int = 0
    dead: int = 0
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        counts = f"{self.stored:,} stored, {self.delivered:,} deliveries, {self.committed:,} committed for certain, "
        lines = [counts + f"{self.again:,} came again with a cause, {self.dead:,} dead letters"]
        for kind in Kind:
            found = [each for each in self.findings if each.kind is kind]
            if found:
                lines.append(f"{kind.value}: {len(found):,}")
                lines += [f"    {each.id} {each.text}" for each in found[:5]]
        return "\n".join(lines)


def check(evidence: Evidence) -> Verdict:
    """Everything that is wrong; nothing is left out because something else is wrong already."""
    return _Check(evidence).verdict()


class _Check:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._by_id: dict[str, list[Delivery]] = defaultdict(list)
        for delivery in evidence.deliveries:
            self._by_id[delivery.id].append(delivery)
        self._answered = _Answered(evidence.commits, evidence.assignments)
        self._again = 0

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
        return Verdict(stored, len(evidence.deliveries), certain, self._again, dead, findings)

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
        """What the documentation says: a commit is answered without being stored while the record's cluster is down,
        and lasts only as long as the mesh; one that comes after its member lost the record changes nothing."""
        if before.member in self._evidence.hung or self._was_kept(before):
            return True
        disturbances = self._evidence.disturbances
        is_down = any(
            original.place is not None and original.place[0] in each.clusters and each.begin <= answered <= each.end
            for each in disturbances
        )
        return is_down and any(each.forgets and each.begin <= again and answered <= each.end for each in disturbances)

    def _was_kept(self, delivery: Delivery) -> bool:
        """Its member has shown what it had fetched before its mesh lost the partition."""
        if delivery.member not in self._evidence.keeping or delivery.at is None:
            return False
        since = delivery.at - BUFFERED
        given = [each for each in self._evidence.assignments.get(delivery.member, ()) if since <= each <= delivery.at]
        return any(
            each.forgets and each.begin <= at <= each.end for each in self._evidence.disturbances for at in given
        )

    def _was_buffered(self, late: Delivery, at: float, taken: float) -> bool:
        """Its member had fetched it, lost it to the other one by a disturbance, and came to process it only afterwards:
        it had not been given partitions anew since."""
        given = [each for each in self._evidence.assignments.get(late.member, ()) if each <= at]
        since = max(given[-1] if given else 0.0, at - BUFFERED)
        return any(
            each.touches((late.member,), since, taken) and each.begin >= since for each in self._evidence.disturbances
        )

    def _order(self) -> Iterator[Finding]:
        highest: dict[tuple[str, Place], tuple[int, float]] = {}
        for delivery in self._evidence.deliveries:
            original = self._evidence.originals.get(delivery.id)
            if original is None or original.place is None or original.copies != 1 or delivery.at is None:
                continue
            if any(each.at is None or each.at < delivery.at for each in self._by_id[delivery.id]):
                continue  # not the first time
            key = (delivery.member, original.place)
            offset, since = highest.get(key, (-1, delivery.at))
            if original.offset > offset:
                highest[key] = (original.offset, delivery.at)
            elif not self._was_disturbed(since, delivery.at):
                yield Finding(Kind.ORDER, delivery.id, f"at {_where(original)}: to {_shown(delivery)} after {offset}")

    def _was_disturbed(self, begin: float, end: float) -> bool:
        """Somebody may have held a record without having journaled it, and have lost it; and who got it then may have
        kept it in its buffer, behind what it shows first."""
        return any(each.begin <= end and begin - BUFFERED <= each.end for each in self._evidence.disturbances)

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
            if done and not all(each.member in self._evidence.hung for each in done):
                yield Finding(Kind.DEAD_LETTER, identity, f"was committed by {done[0].member}")


class _Answered:
    """When the commit of a delivery was answered."""

    def __init__(self, commits: Sequence[Commit], assignments: Mapping[str, Sequence[float]]) -> None:
        self._assignments = assignments
        by_slot: dict[tuple[str, int, int], list[tuple[float, int]]] = defaultdict(list)
        for commit in commits:
            for partition, offset in commit.offsets.items():
                by_slot[commit.member, partition, (offset - 1) >> SLOT_BITS].append((commit.at, offset))
        # Offsets of one slot only rise, and so do the times of one journal.
        self._by_slot = {key: sorted(several) for key, several in by_slot.items()}
        self._offsets = {key: [offset for _, offset in several] for key, several in self._by_slot.items()}

    def when(self, delivery: Delivery) -> float | None:
        """None when it was never answered, as far as the journal tells."""
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
