"""The features of a union: those that all of its clusters have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from mesh.wire.apis import ApiKey, Versions
from mesh.wire.features import NO_FEATURES, UNKNOWN_EPOCH, Features, Levels
from mesh.wire.transaction_levels import TRANSACTIONS, has_second_protocol


def common_features(clusters: Sequence[Features | None]) -> Features:
    """Returns the features that all clusters have. None stands for an unknown cluster: then the result has no features,
    so that no client uses one that a cluster lacks.

    A finalized feature has the lowest level of all clusters; a cluster that lacks a feature has it at level 0. The
    epoch is the highest one, because clients use the answer with the highest epoch, whichever process sends it.
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
    """Limits features to what these versions of APIs support: clients that see a feature do not check versions."""
    level = features.finalized.get(TRANSACTIONS)
    if level is None or has_second_protocol({key: each.highest for key, each in served.items()}):
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
