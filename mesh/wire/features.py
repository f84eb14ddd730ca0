"""What a cluster says of its features (KIP-584) in an answer to ApiVersions: which versions it can have, and has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from mesh.wire.trees import Tree

FIRST_VERSION: Final = 3
"""Of ApiVersions, with features in its answer."""
FIRST_WITH_ZERO: Final = 4
"""Up to v3 clients refuse an answer with a supported feature that begins at 0 (KAFKA-17011)."""
UNKNOWN_EPOCH: Final = -1


class Levels(NamedTuple):
    """Versions of a feature, both inclusive."""

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Features:
    """Features by their names. supported: what they can be. finalized: what all brokers of the cluster go by. epoch: of
    the finalized ones; it rises with each change of them, and -1 says that they are not known."""

    supported: Mapping[str, Levels] = field(default_factory=lambda: MappingProxyType({}))
    finalized: Mapping[str, Levels] = field(default_factory=lambda: MappingProxyType({}))
    epoch: int = UNKNOWN_EPOCH


NO_FEATURES: Final = Features()


def features_of(answer: Tree) -> Features:
    """answer: to ApiVersions, as it was read."""
    supported, finalized = answer.get("supported_features", ()), answer.get("finalized_features", ())
    return Features(
        {each["name"]: Levels(each["min_version"], each["max_version"]) for each in supported},
        {each["name"]: Levels(each["min_version_level"], each["max_version_level"]) for each in finalized},
        answer.get("finalized_features_epoch", UNKNOWN_EPOCH),
    )
