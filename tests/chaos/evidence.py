"""What the checker is given, and what it says. Times are seconds of one clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import TypeAlias

Place: TypeAlias = tuple[str, str, int]
"""Cluster, topic, partition."""

SLOT_BITS = 32
"""A commit is about the offsets of one slot: those that agree above these bits."""


IN_HAND = 1.0
"""Seconds for which an application may go on with what it had polled before its client was given partitions: aiokafka's
is, while records are handled."""
BUFFERED = 60.0
"""Seconds for which a client may keep what it fetched before it shows it: while a commit waits for an answer, on a
busy machine."""

STORING = 3.0
"""Seconds within which a cluster that is used again has stored what was acknowledged while it was away."""


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
    compaction removed it. place, offset: of one copy. may_come: whether it was ever to be read. fed: it was not stored
    before that. fed_to: the cluster, also of what is not stored any more.
    """

    hashes: frozenset[str]
    copies: int = 1
    place: Place | None = None
    offset: int = -1
    may_come: bool = True
    fed: float = -inf
    fed_to: str = ""

    @property
    def cluster(self) -> str:
        return self.fed_to if self.place is None else self.place[0]


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

    clusters: those that could store nothing meanwhile, and until when: `back`, or the end. forgets: the mesh lost its
    memory, or partitions changed hands: what it had acknowledged without having stored it comes again.
    """

    what: str
    begin: float
    end: float
    members: frozenset[str] | None = None
    clusters: frozenset[str] = frozenset()
    forgets: bool = False
    back: float = inf

    def touches(self, members: Iterable[str], begin: float, end: float) -> bool:
        concerned = self.members is None or not self.members.isdisjoint(members)
        return concerned and self.begin <= end and begin <= self.end


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: str
    hash: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """deliveries: each member's in the order of its journal. poison: records that kill their members.

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
    """again: records that came more than once with a cause. ordered: those whose order nothing could excuse."""

    stored: int
    delivered: int
    committed: int
    again: int = 0
    dead: int = 0
    ordered: int = 0
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        counts = f"{self.stored:,} stored, {self.delivered:,} deliveries, {self.committed:,} committed for certain, "
        counts += f"{self.again:,} came again with a cause, the order of {self.ordered:,} judged, "
        lines = [counts + f"{self.dead:,} dead letters"]
        for kind in Kind:
            found = [each for each in self.findings if each.kind is kind]
            if found:
                lines.append(f"{kind.value}: {len(found):,}")
                lines += [f"    {each.id} {each.text}" for each in found[:5]]
        return "\n".join(lines)
