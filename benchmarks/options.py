"""The settings of a benchmark run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from benchmarks.bed import Bed, Engine
from benchmarks.rounds import Series


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a run. scale: of the usual number of records. short: only check the benchmark. peers:
    Kroxylicious too. say: takes progress. beside: the program of another version."""

    rounds: int
    engines: tuple[Engine, ...]
    scale: float
    short: bool
    peers: bool
    say: Callable[[str], None]
    beside: Path | None = None


Case: TypeAlias = Callable[[Bed, Options], list[Series]]
