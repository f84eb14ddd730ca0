from __future__ import annotations

import pytest

from mesh.wire.api_versions_filter import limited
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.features import Levels, features_of
from mesh.wire.relayed_apis import ADVERTISED_APIS
from mesh.wire.transaction_levels import has_second_protocol, of_first_protocol
from mesh.wire.trees import read_tree, write_tree

FINALIZED = [("group.version", 1), ("transaction.version", 2), ("share.version", 1)]


def test_the_versions_of_the_first_level() -> None:
    served = of_first_protocol(ADVERTISED_APIS)
    assert [served[key][1] for key in (ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN)] == [11, 4, 4]
    assert served[ApiKey.FETCH] == ADVERTISED_APIS[ApiKey.FETCH]
    assert has_second_protocol({key: highest for key, (_, highest) in ADVERTISED_APIS.items()})
    assert not has_second_protocol({key: highest for key, (_, highest) in served.items()})


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_client_that_is_served_the_first_level_is_told_of_no_other(version: int, is_first: bool) -> None:
    tree = {
        "error_code": 0,
        "api_keys": [{"api_key": 0, "min_version": 0, "max_version": 13}],
        "throttle_time_ms": 0,
        "finalized_features_epoch": 8,
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level} for name, level in FINALIZED
        ],
    }
    answer = b"\0\0\0\1" + bytes(write_tree(ApiKey.API_VERSIONS, version, Direction.RESPONSE, tree))
    served = of_first_protocol(ADVERTISED_APIS) if is_first else ADVERTISED_APIS
    told = b"".join(limited(version, memoryview(answer), served))
    assert int.from_bytes(told[:4], "big") == len(told) - 4
    found = read_tree(ApiKey.API_VERSIONS, version, Direction.RESPONSE, memoryview(told)[8:])
    assert found["api_keys"][0]["max_version"] == (11 if is_first else 13)
    levels = features_of(found).finalized
    assert levels["transaction.version"] == (Levels(1, 1) if is_first else Levels(2, 2))
    assert {name: each.highest for name, each in levels.items() if name != "transaction.version"} == {
        "group.version": 1,
        "share.version": 1,
    }
