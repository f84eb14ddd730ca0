"""A union says of every API whether it serves it, in which versions, and why not."""

from __future__ import annotations

from mesh.routing.kit.union_apis import SERVED_BY_UNIONS, UNION_APIS, Way
from mesh.wire.apis import ApiKey
from mesh.wire.relayed_apis import RELAYED_APIS


def test_every_relayed_api_has_its_row() -> None:
    assert list(UNION_APIS) == list(RELAYED_APIS)


def test_what_is_not_served_has_a_reason_and_what_is_cut_off_too() -> None:
    for row in UNION_APIS.values():
        assert bool(row.reason) == (row.way is Way.NOT_SERVED or row.highest is not None)


def test_what_would_change_or_show_one_cluster_only_is_not_served() -> None:
    assert {int(api_key) for api_key in RELAYED_APIS.keys() - SERVED_BY_UNIONS.keys()} == {
        *(29, 30, 31),  # ACLs
        *(38, 39, 40, 41),  # delegation tokens
        *(48, 49, 50, 51),  # quotas and users
        *(57, 64, 80, 81, 94),  # the cluster and its nodes
    }


def test_versions_are_those_of_a_relay_but_for_two() -> None:
    fewer = {each: versions.highest for each, versions in SERVED_BY_UNIONS.items() if versions != RELAYED_APIS[each]}
    assert fewer == {ApiKey.INIT_PRODUCER_ID: 5, ApiKey.ADD_PARTITIONS_TO_TXN: 3}
