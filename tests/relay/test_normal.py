"""The comparison leaves out volatile parts, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from tests.integration.raw import Endpoint
from tests.relay.front import Front
from tests.relay.normal import PLACES, differing, normal
from tests.relay.requests import KEYS, KNOWN, entity
from tests.wire.entities import encode

OWN, SAID = Endpoint("127.0.0.1", 9092), Endpoint("mesh", 19092)
FRONT = Front(SAID, {1: SAID}, {OWN: SAID})
OWN_PLACE = {"host": OWN.host, "port": OWN.port}
SAID_PLACE = {"host": SAID.host, "port": SAID.port}


def answer(api: str, version: int, given: dict[str, Any]) -> bytes:
    """An answer with a header of the version, correlation id 7."""
    schema: Any = load_response_schema(KEYS[api], version)
    header = (7).to_bytes(4, "big") + (b"\0" if "v1" in schema.__header_schema__.__module__ else b"")
    return header + encode(entity(schema, given))


@pytest.mark.parametrize("api", PLACES)
def test_addresses_are_mapped_back_where_they_are(api: str) -> None:
    version = max(KNOWN[api])
    for path in PLACES[api] - {""}:
        direct = answer(api, version, {path: [OWN_PLACE]})
        assert normal(api, version, direct).kept == direct
        assert normal(api, version, answer(api, version, {path: [SAID_PLACE]}), FRONT).kept == direct
        assert normal(api, version, direct, FRONT).kept != direct, "an address that the front has left as it was"
        other = answer(api, version, {path: [{**SAID_PLACE, "port": 1}]})
        assert normal(api, version, other, FRONT).kept != direct


def test_the_address_of_an_old_find_coordinator_is_mapped_back() -> None:
    direct, said = (answer("find_coordinator", 0, {"node_id": 1, **each}) for each in (OWN_PLACE, SAID_PLACE))
    assert normal("find_coordinator", 0, said, FRONT).kept == direct != said
    nowhere = answer("find_coordinator", 0, {"node_id": -1, "host": "", "port": -1})
    assert normal("find_coordinator", 0, nowhere, FRONT).kept == nowhere


def test_controllers_keep_their_own_addresses() -> None:
    direct = answer("describe_cluster", 2, {"endpoint_type": 2, "brokers": [OWN_PLACE], "controller_id": 0})
    assert normal("describe_cluster", 2, direct, FRONT).kept == direct


def test_of_a_volatile_text_only_the_id_is_left_out() -> None:
    ids = "00000000-1111-2222-3333-444444444444", "00000000-1111-2222-3333-555555555555"
    one, other = (normal("join_group", 9, answer("join_group", 9, {"member_id": f"c-{each}"})) for each in ids)
    assert one.kept == other.kept
    assert list(differing(one.volatile, other.volatile)) == ["member_id"]
    for member_id in ("", f"another-{ids[0]}"):
        assert normal("join_group", 9, answer("join_group", 9, {"member_id": member_id})).kept != one.kept


def test_a_volatile_number_is_none_or_one() -> None:
    one, other, none = (
        normal("init_producer_id", 5, answer("init_producer_id", 5, {"producer_id": each})).kept for each in (5, 6, -1)
    )
    assert one == other != none


def test_everything_else_is_compared() -> None:
    right = answer("init_producer_id", 5, {"producer_epoch": 0})
    for wrong in ({"producer_epoch": 1}, {"error_code": ErrorCode.unknown_server_error}, {"throttle_time": 1}):
        other = answer("init_producer_id", 5, wrong)
        assert normal("init_producer_id", 5, other).kept != normal("init_producer_id", 5, right).kept
    for other in (right + b"\0", right[:-1], b"\1" + right[1:]):
        assert normal("init_producer_id", 5, other).kept != normal("init_producer_id", 5, right).kept


def test_hidden_apis_are_left_out_of_what_a_broker_advertises_only() -> None:
    keys = [{"api_key": each, "min_version": 0, "max_version": 1} for each in (3, 83)]
    both, visible = (answer("api_versions", 4, {"api_keys": each}) for each in (keys, keys[:1]))
    hiding = replace(FRONT, hidden=frozenset({83}))
    assert normal("api_versions", 4, both, behind=hiding).kept == normal("api_versions", 4, visible, FRONT).kept
    assert normal("api_versions", 4, both, FRONT).kept != normal("api_versions", 4, visible, FRONT).kept


def test_versions_that_are_left_out_are_so_of_what_a_broker_advertises_only() -> None:
    entry = {"api_key": 3, "max_version": 12}
    all_of_it, later = (answer("api_versions", 4, {"api_keys": [entry | {"min_version": each}]}) for each in (0, 4))
    front = replace(FRONT, oldest={3: 4})
    assert normal("api_versions", 4, all_of_it, behind=front).kept == normal("api_versions", 4, later, front).kept
    assert normal("api_versions", 4, all_of_it, front).kept != normal("api_versions", 4, later, front).kept
