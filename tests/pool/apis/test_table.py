"""The table of APIs, its files, their docstrings, and the way from bytes to bytes of every version."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import mesh.apis
import mesh.pool.apis
from mesh.apis.listener_table import LISTENER_TABLE
from mesh.pool.apis.table import TABLE
from mesh.wire.apis import APIS, ApiKey
from tests.pool.apis.harness import Client, Mesh, join_values
from tests.wire.each_version import each_version
from tests.wire.entities import ALL_VERSIONS

FILES = {
    path.stem: package.__name__
    for package in (mesh.apis, mesh.pool.apis)
    for path in sorted(Path(str(package.__file__)).parent.glob("k[0-9]*_*.py"))
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_is_named_for_its_api_and_says_which_versions_it_serves(name: str) -> None:
    module = importlib.import_module(f"{FILES[name]}.{name}")
    api = module.API
    assert name == f"k{api.key:02}_{api.key.name.lower()}"
    versions = api.versions
    title = api.key.name.title().replace("_", "")
    first, *_ = docstring = str(module.__doc__).splitlines()
    assert first == f"{title}: v{versions.lowest}-v{versions.highest}"
    assert "Behaviour:" in docstring


def test_every_file_is_in_the_table_in_the_order_of_keys() -> None:
    for package, table in ((mesh.apis, LISTENER_TABLE), (mesh.pool.apis, TABLE)):
        files = [name for name, where in FILES.items() if where == package.__name__]
        assert [f"k{key:02}_{key.name.lower()}" for key in table] == files
        assert all(api.key is key and api.versions == APIS[key] for key, api in table.items())


CONVERSATIONS: dict[ApiKey, dict[str, Any]] = {
    ApiKey.PRODUCE: {
        "acks": 1,
        "timeout": 1_000,
        "topic_data": ({"name": "orders", "partition_data": ({"index": 0, "records": b"records"},)},),
    },
    ApiKey.FETCH: {
        "max_wait": 500,
        "min_bytes": 1,
        "topics": (
            {
                "topic": "unknown",
                "partitions": ({"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1},),
            },
        ),
    },
    ApiKey.LIST_OFFSETS: {"topics": ({"name": "orders", "partitions": ({"partition_index": 0, "timestamp": -2},)},)},
    ApiKey.METADATA: {"topics": ({"name": "orders"},)},
    ApiKey.OFFSET_COMMIT: {
        "group_id": "shop",
        "member_id": "",
        "topics": ({"name": "orders", "partitions": ({"partition_index": 0, "committed_offset": 5},)},),
    },
    ApiKey.OFFSET_FETCH: {"group_id": "", "topics": (), "groups": ({"group_id": "", "topics": ()},)},
    ApiKey.FIND_COORDINATOR: {"key": "shop", "coordinator_keys": ("shop",)},
    ApiKey.JOIN_GROUP: join_values(member_id="unknown"),
    ApiKey.HEARTBEAT: {"group_id": "shop", "generation_id": 1, "member_id": "unknown"},
    ApiKey.LEAVE_GROUP: {"group_id": "shop", "member_id": "unknown", "members": ({"member_id": "unknown"},)},
    ApiKey.SYNC_GROUP: {"group_id": "shop", "generation_id": 1, "member_id": "unknown", "assignments": ()},
    ApiKey.SASL_HANDSHAKE: {"mechanism": "PLAIN"},
    ApiKey.SASL_AUTHENTICATE: {"auth_bytes": b"\0alice\0secret"},
    ApiKey.DESCRIBE_GROUPS: {"groups": ("shop", "unknown")},
    ApiKey.LIST_GROUPS: {"states_filter": ("Stable",)},
    ApiKey.DELETE_GROUPS: {"groups_names": ("shop",)},
    ApiKey.OFFSET_DELETE: {"group_id": "shop", "topics": ()},
    ApiKey.DESCRIBE_CLUSTER: {},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {"group_id": "shop", "member_id": "unknown", "member_epoch": 7},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {"group_ids": ("shop",)},
    ApiKey.SHARE_GROUP_HEARTBEAT: {"group_id": "shop", "member_id": "unknown", "member_epoch": 7},
    ApiKey.SHARE_FETCH: {
        "group_id": "shop",
        "member_id": "unknown",
        "share_session_epoch": 7,
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 1_000,
        "max_records": 10,
        "batch_size": 10,
        "topics": (),
        "forgotten_topics_data": (),
    },
    ApiKey.SHARE_GROUP_DESCRIBE: {"group_ids": ("shop",)},
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: {"groups": ({"group_id": "shop", "topics": None},)},
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: {
        "group_id": "shop",
        "topics": ({"topic_name": "orders", "partitions": ({"partition_index": 0, "start_offset": 5},)},),
    },
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {"group_id": "shop", "topics": ({"topic_name": "orders"},)},
    ApiKey.DESCRIBE_CONFIGS: {
        "resources": ({"resource_type": 32, "resource_name": "shop", "configuration_keys": None},),
        "include_synonyms": True,
    },
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {
        "resources": (
            {
                "resource_type": 32,
                "resource_name": "shop",
                "configs": ({"name": "share.delivery.count.limit", "config_operation": 0, "value": "7"},),
            },
        ),
        "validate_only": False,
    },
    ApiKey.LIST_CONFIG_RESOURCES: {"resource_types": (32,)},
    ApiKey.SHARE_ACKNOWLEDGE: {"group_id": "shop", "member_id": "unknown", "share_session_epoch": 7, "topics": ()},
    ApiKey.API_VERSIONS: {"client_software_name": "test", "client_software_version": "1.0"},
}
"""A request of each API that is answered at once."""


@each_version(ALL_VERSIONS)
def test_whole_byte_by_byte_and_with_a_tail(api_key: ApiKey, version: int) -> None:
    client = Client(Mesh())
    first, second = (client.bytes_of(api_key, version, **CONVERSATIONS[api_key]) for _ in range(2))
    whole = client.receive(first)
    (answer,) = client.take(whole)
    assert [client.receive(bytes([byte])) for byte in first] == [b""] * (len(first) - 1) + [whole]
    assert client.receive(first + second[:7]) == whole
    assert client.take(client.receive(second[7:])) == [answer]


@each_version(ALL_VERSIONS)
def test_bytes_behind_the_body_change_nothing(api_key: ApiKey, version: int) -> None:
    client = Client(Mesh())
    usual = client.bytes_of(api_key, version, **CONVERSATIONS[api_key])
    body = usual[4:] + b"\1\0\0"
    assert client.receive(len(body).to_bytes(4, "big") + body) == client.receive(usual) != b""
