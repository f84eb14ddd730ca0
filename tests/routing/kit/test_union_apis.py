"""A union knows for every API whether it serves it, in which versions, and why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mesh.routing.kit.refusals import code_when_down
from mesh.routing.kit.union_apis import SERVED_BY_UNIONS, UNION_APIS, LeafDestination
from mesh.wire.apis import ApiKey
from mesh.wire.relayed_apis import RELAYED_APIS


def test_every_relayed_api_has_its_row() -> None:
    assert list(UNION_APIS) == list(RELAYED_APIS)


def test_what_is_not_served_has_a_reason_and_what_is_cut_off_too() -> None:
    for row in UNION_APIS.values():
        assert bool(row.reason) == (row.destination is LeafDestination.NOT_SERVED or row.highest is not None)


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


PAGE = Path(__file__).parents[3] / "docs" / "unions.md"
TO = {
    "the node that the client has connected to": LeafDestination.OWN_NODE,
    "the home of each group or transaction": LeafDestination.COORDINATOR,
    "the home of each group, and the owners of its topics": LeafDestination.OFFSETS,
    "the owner of each topic or resource": LeafDestination.OWNER,
    "all clusters": LeafDestination.ALL,
    "the cluster of `default`": LeafDestination.DEFAULT,
    "none: the mesh answers": LeafDestination.TERMINATED,
}


def rows() -> Iterator[tuple[str, ...]]:
    """The rows of all tables of the page."""
    for line in PAGE.read_text().splitlines():
        if line.startswith("| "):
            yield tuple(cell.strip() for cell in line.strip("|").split("|"))


def kafka_name(api_key: ApiKey) -> str:
    return api_key.name.title().replace("_", "")


def test_the_page_says_where_requests_go() -> None:
    told = {name: TO[to] for to, names in (row for row in rows() if row[0] in TO) for name in names.split(", ")}
    served = {
        kafka_name(each): row.destination
        for each, row in UNION_APIS.items()
        if row.destination is not LeafDestination.NOT_SERVED
    }
    assert told == served


def test_the_page_says_what_is_not_served_and_why() -> None:
    found = list(rows())
    told = {name: row[1] for row in found for name in row[0].split(", ")}
    for api_key, row in UNION_APIS.items():
        if row.destination is LeafDestination.NOT_SERVED:
            assert told[kafka_name(api_key)] == row.reason
        elif row.highest is not None:
            assert told[f"{kafka_name(api_key)} from v{row.highest + 1} on"] == row.reason


def test_the_page_says_what_is_answered_while_a_cluster_is_down() -> None:
    text = PAGE.read_text().partition("## While a cluster is down")[2]
    assert all(code_when_down(each).name in text for each in SERVED_BY_UNIONS)
