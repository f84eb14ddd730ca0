from __future__ import annotations

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.features import FIRST_VERSION, NO_FEATURES, Features, Levels, features_of
from mesh.wire.trees import read_tree, write_tree

API = ApiKey.API_VERSIONS


def test_what_a_cluster_says() -> None:
    told = {
        "supported_features": [{"name": "group.version", "min_version": 0, "max_version": 1}],
        "finalized_features_epoch": 7,
        "finalized_features": [{"name": "group.version", "min_version_level": 1, "max_version_level": 1}],
    }
    answer = read_tree(API, 4, Direction.RESPONSE, write_tree(API, 4, Direction.RESPONSE, told))
    assert features_of(answer) == Features({"group.version": Levels(0, 1)}, {"group.version": Levels(1, 1)}, 7)


def test_a_cluster_that_says_nothing() -> None:
    for version in (0, FIRST_VERSION):
        answer = read_tree(API, version, Direction.RESPONSE, write_tree(API, version, Direction.RESPONSE, {}))
        assert features_of(answer) == NO_FEATURES
