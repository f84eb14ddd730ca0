"""The programs of other projects that run here, and which of their tests are about the promises of a pool.

Each listed test runs unchanged, on one cluster behind a mesh (`front.py`). A test that asserts what a pool does not
promise is listed with the reason; a test that should pass, but fails, with the defect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import pytest

Reason = Literal[
    "alone: it needs no cluster, or one of its own",
    "brokers: it needs three of them",
    "brokers: Kafka 4 has no earlier formats",
    "by hand: it skips itself, or is for one who starts it",
    "growth: what is new is known some seconds later",
    "metadata: the text of a commit is not kept",
    "offsets: they are the mesh's own, and begin anywhere",
    "partitions: each member is assigned all of them",
    "producing: a pool takes none, so the front sends it past the mesh",
    "positions: who has not joined commits only what it was given",
    "security: it needs SASL or TLS, and skips itself without",
    "scripts: it starts Kafka's shell scripts",
    "share groups: one answer may have records of several partitions",
    "share groups: the isolation level is that with which the pool began",
    "topics: their ids are of their names, also when they are made anew",
    "topics: only those of the configuration are shown, no internal ones",
    "transactions: offsets cannot be committed in one",
]


@dataclass(frozen=True, slots=True)
class Suite:
    """run: tests that pass. not_applicable: tests that cannot pass, each with the reason. defects: tests that should
    pass."""

    run: Sequence[str]
    not_applicable: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    defects: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def parameters(self) -> list[object]:
        """Parameters for a test that runs with each name; tests that should pass, but fail, are expected to fail."""
        failing = (
            pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=defect))
            for name, defect in self.defects.items()
        )
        return [*self.run, *failing]
