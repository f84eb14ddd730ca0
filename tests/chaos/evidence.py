"""The input and output of the checker. Times are seconds of one clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import TypeAlias

Place: TypeAlias = tuple[str, str, int]
"""Cluster, topic, partition."""

SLOT_BITS = 32
"""A commit concerns the offsets of one slot: those with equal bits above these."""


IN_HAND = 1.0
"""Seconds for which an application may process polled records after its client got new partitions: aiokafka assigns
while records are handled."""
BUFFERED = 60.0
"""Seconds for which a client may keep fetched records before the application gets them: while a commit waits, on a busy
machine."""

STORING = 3.0
"""Seconds in which a usable cluster must have stored earlier acknowledgements."""


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
    """A produced record.

    hashes: of everything that a client may show of it. copies: how often it is stored; 0 if its transaction was
    aborted, or compaction removed it. place, offset: of one copy. may_come: true if a consumer could ever read it. fed:
    the time before which it was not stored. fed_to: the cluster, also of a record that is no longer stored.
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
    """A record in a member's journal; at: None for a member without times."""

    member: str
    at: float | None
    partition: int
    offset: int
    id: str
    hash: str


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that was answered without an error: next offsets by partition."""

    member: str
    at: float
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A record whose acknowledgement was confirmed to a share member."""

    member: str
    at: float
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Disturbance:
    """An event from `begin` to `end` (which includes its later effects) by which members lose uncommitted records.
    members: the affected ones; None for all.

    clusters: those that could store nothing meanwhile, until `back`, or the end. forgets: the mesh lost its memory, or
    partitions changed hands, so records that were acknowledged and not stored come again.
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
    """What a run recorded. deliveries: of each member, in the order of its journal. poison: records that kill their
    members.

    keeping: members whose client keeps its position and its fetched records when it gets a new assignment; its commit
    of records that went to another mesh is answered, and changes nothing. assignments: ascending times at which members
    got partitions, which empties their clients' buffers; they lost what they had not committed by then, and a later
    commit counts only for records that came after it, though its offset is higher. sharing: share members, which
    acknowledge single records in any order, and show offsets of the cluster. clean_from: the time when all records were
    committed and all members had left: no older record comes again after it.
    """

    originals: Mapping[str, Original]
    deliveries: Sequence[Delivery]
    commits: Sequence[Commit] = ()
    acknowledgements: Sequence[Acknowledgement] = ()
    disturbances: Sequence[Disturbance] = ()
    dead_letters: Sequence[DeadLetter] = ()
    poison: frozenset[str] = frozenset()
    keeping: frozenset[str] = frozenset()
    sharing: frozenset[str] = frozenset()
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
    """The result of a check. again: records that came more than once with a cause. ordered: records whose disorder
    nothing could excuse."""

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
