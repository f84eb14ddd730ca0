"""The programs of others that are run here, and which of their tests are about what a pool promises.

Every test that is named runs as it is, on one cluster behind a mesh (`front.py`). One that asserts what a pool does not
promise is named with the reason; one that should pass, and does not, with the defect.
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
    "share groups: offsets are not deleted",
    "topics: only those of the configuration are shown, no internal ones",
    "transactions: offsets cannot be committed in one",
]


@dataclass(frozen=True, slots=True)
class Suite:
    """run: those that pass. not_applicable: those that cannot, each with the reason. defects: those that should."""

    run: Sequence[str]
    not_applicable: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    defects: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def parameters(self) -> list[object]:
        """Of a test that is run with each name; those that should pass and do not are expected to fail."""
        failing = (
            pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=defect))
            for name, defect in self.defects.items()
        )
        return [*self.run, *failing]
