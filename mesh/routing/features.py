"""The features of a union: what holds in all of its clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from mesh.wire.apis import ApiKey, Versions
from mesh.wire.features import NO_FEATURES, UNKNOWN_EPOCH, Features, Levels

TRANSACTIONS: Final = "transaction.version"
SECOND_PROTOCOL: Final[Mapping[ApiKey, int]] = {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}
"""The versions that level 2 of transactions begins with (KIP-890)."""


def common_features(clusters: Sequence[Features | None]) -> Features:
    """None: it is not known what a cluster has; then it is of none. So no client begins with more than holds.

    Of the finalized ones the lowest levels: one that a cluster lacks, or has at level 0, is off in it. The epoch is the
    highest of theirs: clients go by the answer with the highest epoch, whichever process gave it.
    """
    known = [each for each in clusters if each is not None and each.epoch != UNKNOWN_EPOCH]
    if not known or len(known) < len(clusters):
        return NO_FEATURES
    return Features(
        reduce(_both, (each.supported for each in known)),
        reduce(_lower, (each.finalized for each in known)),
        max(each.epoch for each in known),
    )


def with_apis(features: Features, served: Mapping[ApiKey, Versions]) -> Features:
    """The features where no more than these versions are served: clients that have a feature look at no versions."""
    level = features.finalized.get(TRANSACTIONS)
    if level is None or all(key in served and served[key].highest >= first for key, first in SECOND_PROTOCOL.items()):
        return features
    first = Levels(min(level.lowest, 1), min(level.highest, 1))
    return replace(features, finalized={**features.finalized, TRANSACTIONS: first})


def _both(left: Mapping[str, Levels], right: Mapping[str, Levels]) -> Mapping[str, Levels]:
    shared = {
        name: Levels(max(left[name].lowest, right[name].lowest), min(left[name].highest, right[name].highest))
        for name in left
        if name in right
    }
    return {name: each for name, each in shared.items() if each.lowest <= each.highest}


def _lower(left: Mapping[str, Levels], right: Mapping[str, Levels]) -> Mapping[str, Levels]:
    shared = {
        name: Levels(min(left[name].lowest, right[name].lowest), min(left[name].highest, right[name].highest))
        for name in left
        if name in right
    }
    return {name: each for name, each in shared.items() if each.highest > 0}
