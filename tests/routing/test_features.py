from __future__ import annotations

import pytest

from mesh.routing.features import common_features, with_apis
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.features import NO_FEATURES, Features, Levels
from mesh.wire.transaction_levels import SECOND_PROTOCOL


def finalized(epoch: int, **levels: int) -> Features:
    """Levels by the names of features, with `_` for the dot."""
    return Features(
        {name.replace("_", "."): Levels(0, 9) for name in levels},
        {name.replace("_", "."): Levels(level, level) for name, level in levels.items()},
        epoch,
    )


def test_what_all_clusters_have_at_the_lowest_level_of_them() -> None:
    told = common_features(
        [
            finalized(8, transaction_version=2, group_version=1, share_version=1),
            finalized(5, transaction_version=1, group_version=1),
        ]
    )
    assert told.finalized == {"transaction.version": Levels(1, 1), "group.version": Levels(1, 1)}


def test_one_cluster_is_told_as_it_is() -> None:
    alone = finalized(8, transaction_version=2)
    assert common_features([alone]) == alone


def test_level_0_is_none() -> None:
    told = common_features([finalized(1, group_version=1), finalized(1, group_version=0)])
    assert told.finalized == {}


def test_the_epoch_is_the_highest() -> None:
    assert common_features([finalized(8), finalized(5)]).epoch == 8
    assert common_features([finalized(5), finalized(9)]).epoch == 9


@pytest.mark.parametrize("other", [None, NO_FEATURES])
def test_nothing_is_told_while_a_cluster_has_not_said_what_it_has(other: Features | None) -> None:
    assert common_features([finalized(8, group_version=1), other]) == NO_FEATURES
    assert common_features([other, finalized(8, group_version=1)]) == NO_FEATURES


def test_what_no_cluster_has_said() -> None:
    assert common_features([]) == NO_FEATURES


def test_supported_is_what_all_can_have() -> None:
    left = Features({"a": Levels(0, 2), "b": Levels(3, 4), "c": Levels(1, 1)}, {}, 1)
    right = Features({"a": Levels(1, 3), "b": Levels(1, 2)}, {}, 1)
    assert common_features([left, right]).supported == {"a": Levels(1, 2)}


@pytest.mark.parametrize("lacks", [None, *SECOND_PROTOCOL])
def test_transactions_have_the_second_protocol_only_where_its_versions_are_served(lacks: ApiKey | None) -> None:
    served = {key: Versions(0, first - (key is lacks), 9) for key, first in SECOND_PROTOCOL.items()}
    told = with_apis(finalized(3, transaction_version=2, group_version=1), served)
    level = 2 if lacks is None else 1
    assert told == Features(
        finalized(3, transaction_version=2, group_version=1).supported,
        {"transaction.version": Levels(level, level), "group.version": Levels(1, 1)},
        3,
    )


def test_an_api_that_is_not_served_has_no_version() -> None:
    assert with_apis(finalized(3, transaction_version=2), {}).finalized == {"transaction.version": Levels(1, 1)}
    assert with_apis(finalized(3, transaction_version=1), {}).finalized == {"transaction.version": Levels(1, 1)}
    assert with_apis(NO_FEATURES, {}) == NO_FEATURES
