from __future__ import annotations

from typing import Any

import pytest

from mesh.pool.common.group_configs import GROUP_CONFIGS
from mesh.pool.common.settings import PoolSettings, ShareSettings
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, versions
from tests.pool.harness import GROUP, ORDERS

LIMIT, LOCK, RESET = "share.delivery.count.limit", "share.record.lock.duration.ms", "share.auto.offset.reset"
CONFIGURED = PoolSettings(share=ShareSettings(lock=20.0))
SET, STATIC, DEFAULT = 8, 4, 5
"""The possible sources of a value."""


def described(mesh: Mesh, version: int = 4, keys: Any = None, kind: int = 32, name: str = GROUP) -> Any:
    resources = ({"resource_type": kind, "resource_name": name, "configuration_keys": keys},)
    asked = {"resources": resources, "include_synonyms": True, "include_documentation": True}
    (result,) = Client(mesh, "tool").ask(ApiKey.DESCRIBE_CONFIGS, version, **asked).results
    return result


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
def test_where_values_come_from(version: int) -> None:
    mesh = Mesh(CONFIGURED)
    mesh.kept.set[GROUP] = {LIMIT: "7"}
    found = {each.name: each for each in described(mesh, version).configs}
    assert list(found) == list(GROUP_CONFIGS)
    assert (found[LIMIT].value, found[LIMIT].config_source) == ("7", SET)
    assert (found[LOCK].value, found[LOCK].config_source) == ("20000", STATIC)
    assert (found[RESET].value, found[RESET].config_source) == ("latest", DEFAULT)
    assert [(each.name, each.value, each.source) for each in found[LIMIT].synonyms] == [
        (LIMIT, "7", SET),
        (f"group.{LIMIT}", "5", DEFAULT),
    ]
    assert not any(each.read_only or each.is_sensitive for each in found.values())
    if version >= 3:
        assert (found[LIMIT].config_type, found[RESET].config_type) == (3, 2)
        assert all(each.documentation for each in found.values())


def test_only_those_that_are_named() -> None:
    mesh = Mesh()
    assert [each.name for each in described(mesh, keys=(LOCK, "unknown")).configs] == [LOCK]
    assert len(described(mesh, keys=()).configs) == len(GROUP_CONFIGS)


def test_what_is_not_configured_here() -> None:
    mesh = Mesh()
    for kind, name, error in (
        (2, ORDERS, ErrorCode.INVALID_REQUEST),
        (32, "", ErrorCode.INVALID_REQUEST),
    ):
        result = described(mesh, kind=kind, name=name)
        assert (result.error_code, result.configs) == (error, ())
        assert (result.resource_type, result.resource_name) == (kind, name)
        assert result.error_message
