"""The independent count: whether every record that was fed was delivered exactly once, unaltered.

It knows nothing of the mesh. It compares the feeder's journal with those of the members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mesh.demo.processes.journal import RecordId, read

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    """The verdict on the records that were fed.

    delivered: receipts, so a record that came twice counts twice.
    """

    fed: int
    delivered: int
    missing: tuple[RecordId, ...]
    repeated: tuple[RecordId, ...]
    altered: tuple[RecordId, ...]
    unknown: tuple[RecordId, ...]

    @property
    def exactly_once(self) -> bool:
        """Returns whether records were fed, and each was received exactly once and unaltered."""
        return self.fed > 0 and not (self.missing or self.repeated or self.altered or self.unknown)

    def lines(self) -> Iterator[str]:
        """Yields the verdict as lines for people: counts, and some ids of wrong records."""
        yield f"{self.fed:,} records fed, {self.delivered:,} delivered"
        findings = {
            "never delivered": self.missing,
            "delivered more than once": self.repeated,
            "delivered altered": self.altered,
            "delivered but never fed": self.unknown,
        }
        for what, ids in findings.items():
            if ids:
                yield f"{what}: {len(ids):,} ({', '.join(ids[:_SHOWN])}{', …' if len(ids) > _SHOWN else ''})"
        if self.exactly_once:
            yield "every record was delivered exactly once, unaltered"


def judge(fed: Path, received: Iterable[Path]) -> JudgeVerdict:
    """Compares the feeder's journal with those of all members. Raises ValueError when an id was fed twice."""
    missing: dict[RecordId, str] = {}
    for entry in read(fed):
        if entry.id in missing:
            raise ValueError(f"the feeder used the id {entry.id} twice")
        missing[entry.id] = entry.fingerprint
    count = len(missing)
    delivered: dict[RecordId, str] = {}
    receipts = 0
    # Dictionaries, not sets: they keep the order in which the ids came.
    repeated: dict[RecordId, None] = {}
    altered: dict[RecordId, None] = {}
    unknown: dict[RecordId, None] = {}
    for entry in (entry for path in received for entry in read(path)):
        receipts += 1
        if entry.id in delivered:
            repeated[entry.id] = None
        elif entry.id in missing:
            delivered[entry.id] = missing.pop(entry.id)
        else:
            unknown[entry.id] = None
            continue
        if entry.fingerprint != delivered[entry.id]:
            altered[entry.id] = None
    return JudgeVerdict(count, receipts, tuple(missing), tuple(repeated), tuple(altered), tuple(unknown))
