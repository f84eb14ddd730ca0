"""The features of a union: what holds in all of its clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from mesh.wire.features import NO_FEATURES, UNKNOWN_EPOCH, Features, Levels


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
