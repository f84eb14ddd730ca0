"""The memory of an audit for the next one, and its verdict.

The folder of an audit has `N.json` (the memory after audit N), `N.accounts.parquet` and `N.exceptions.parquet` (its
findings). The JSON is written last, so an interrupted audit is repeated.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from mesh.pipelines.audit.accounts import COLUMNS, Account, AuditState, Deviation

Place: TypeAlias = tuple[str, str, int]
"""Cluster, topic, partition."""
TOLD: Final = 20
"""The most deviations that are printed; the table has all of them."""


@dataclass(frozen=True, slots=True)
class Holes:
    """The holes of the journal: pages that were lost, and events that were dropped."""

    pages: int = 0
    dropped: int = 0

    @property
    def any(self) -> bool:
        return self.pages > 0 or self.dropped > 0


@dataclass(slots=True)
class Memory:
    """The memory of one audit for the next. number: the number of the last audit. journal: the next offset of each
    partition of the journal. runs: the next page of each run of a process. files: the files of the table that were
    read."""

    number: int = 0
    journal: dict[str, int] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    states: dict[Place, AuditState] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Memory:
        """Reads the memory of the last finished audit; returns a new one if there is none."""
        numbers = [int(file.stem) for file in folder.glob("*.json")] if folder.is_dir() else []
        if not numbers:
            return cls()
        found = json.loads((folder / f"{max(numbers)}.json").read_text())
        states = {(*place,): _state(state) for place, state in found["states"]}
        return cls(found["number"], found["journal"], found["runs"], set(found["files"]), states)

    def save(self, folder: Path) -> None:
        states = [[place, asdict(state)] for place, state in sorted(self.states.items())]
        saved = {"number": self.number, "journal": self.journal, "runs": self.runs, "files": sorted(self.files)}
        partial = folder / f"{self.number}.partial"
        partial.write_text(json.dumps({**saved, "states": states}))
        partial.rename(folder / f"{self.number}.json")

    def holes(self, pages: Sequence[tuple[str, str, int, bool, int]]) -> Holes:
        """Returns the holes of the journal up to these pages, and remembers the pages. A run whose first pages were
        deleted before the first audit begins with the pages that are left."""
        lost = dropped = 0
        for run, _, sequence, is_last, left_out in sorted(set(pages)):
            dropped += left_out
            expected = self.runs.get(run, 0 if self.number else sequence)
            lost += max(sequence - expected, 0)
            self.runs[run] = sequence + 1
            if is_last:
                del self.runs[run]
        return Holes(lost, dropped)


def _state(found: dict[str, Any]) -> AuditState:
    runs = ("open", "delivered", "acknowledged", "to_land", "landed", "dead", "windows")
    return AuditState(**{**found, **{name: [tuple(run) for run in found[name]] for name in runs}})


@dataclass(slots=True)
class AuditVerdict:
    """The verdict of an audit. accounts, deviations: those of this audit. waiting: the number of expected offsets that
    are not settled yet."""

    accounts: Mapping[Place, Account]
    holes: Holes
    memory: Memory

    @classmethod
    def of(cls, accounts: Mapping[Place, Account], holes: Holes, memory: Memory) -> AuditVerdict:
        accounts = {place: each for place, each in sorted(accounts.items()) if place[0]}
        memory.states = {place: each.state for place, each in accounts.items()}
        memory.number += 1
        return cls(accounts, holes, memory)

    @property
    def deviations(self) -> Iterator[tuple[Place, Deviation]]:
        for place, each in self.accounts.items():
            for deviation in each.deviations:
                yield place, deviation

    @property
    def holds(self) -> bool:
        """Returns whether everything that was acknowledged is where it belongs, and nothing is unaccounted for."""
        return not any(deviation.fails for _, deviation in self.deviations)

    @property
    def waiting(self) -> int:
        return sum(each.waiting for each in self.accounts.values())

    @property
    def totals(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for each in self.accounts.values():
            for counts in each.counts.values():
                total += counts
        return total

    def lines(self) -> Iterator[str]:
        """Yields the verdict as lines for people."""
        totals = self.totals
        yield f"audit {self.memory.number}: " + ", ".join(
            f"{totals[name]:,} {name.replace('_', ' ')}" for name in COLUMNS
        )
        yield f"{self.waiting:,} are not acknowledged yet"
        if self.holes.any:
            yield f"the journal has holes: {self.holes.pages} pages lost, {self.holes.dropped:,} events dropped"
        found = list(self.deviations)
        for (cluster, topic, partition), each in found[:TOLD]:
            many = f"{each.first}..{each.last}" if each.last > each.first else str(each.first)
            what, where = each.kind.replace("_", " "), f"{cluster}/{topic}-{partition}"
            yield f"{'FAILS' if each.fails else 'note '} {what}: {where} {many}"
            yield from (f"        {line}" for line in each.story)
        if len(found) > TOLD:
            yield f"and {len(found) - TOLD:,} more, in the table of exceptions"
        yield "VERDICT: everything is accounted for" if self.holds else "VERDICT: not everything is accounted for"

    def save(self, folder: Path) -> None:
        from mesh.pipelines.audit.tables import write_accounts, write_exceptions

        folder.mkdir(parents=True, exist_ok=True)
        accounts = [
            {**_place(place), "window": window, **{name: counts[name] for name in COLUMNS}}
            for place, each in self.accounts.items()
            for window, counts in sorted(each.counts.items())
        ]
        exceptions = [
            {
                **_place(place),
                **{name: getattr(each, name) for name in ("kind", "fails", "first", "last", "window")},
                "story": list(each.story),
            }
            for place, each in self.deviations
        ]
        write_accounts(folder / f"{self.memory.number}.accounts.parquet", accounts)
        write_exceptions(folder / f"{self.memory.number}.exceptions.parquet", exceptions)
        self.memory.save(folder)


def _place(place: Place) -> dict[str, Any]:
    return dict(zip(("cluster", "topic", "partition"), place, strict=True))
