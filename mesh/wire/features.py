"""The features of a cluster (KIP-584) in an answer to ApiVersions: the levels that it supports, and those that are
finalized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from mesh.wire.trees import Tree

FIRST_VERSION: Final = 3
"""The first version of ApiVersions with features in its answer."""
FIRST_WITH_ZERO: Final = 4
"""The first version with features that begin at level 0. Clients up to v3 refuse an answer with such a feature
(KAFKA-17011)."""
UNKNOWN_EPOCH: Final = -1


class Levels(NamedTuple):
    """The lowest and highest level of a feature."""

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a cluster, by name. supported: the levels that its brokers support. finalized: the levels that
    are in use in the cluster. epoch: that of the finalized levels; it rises with each change, and -1 means unknown."""

    supported: Mapping[str, Levels] = field(default_factory=lambda: MappingProxyType({}))
    finalized: Mapping[str, Levels] = field(default_factory=lambda: MappingProxyType({}))
    epoch: int = UNKNOWN_EPOCH


NO_FEATURES: Final = Features()


def features_of(answer: Tree) -> Features:
    """Returns the features in an answer to ApiVersions. answer: the decoded tree."""
    supported, finalized = answer.get("supported_features", ()), answer.get("finalized_features", ())
    return Features(
        {each["name"]: Levels(each["min_version"], each["max_version"]) for each in supported},
        {each["name"]: Levels(each["min_version_level"], each["max_version_level"]) for each in finalized},
        answer.get("finalized_features_epoch", UNKNOWN_EPOCH),
    )
