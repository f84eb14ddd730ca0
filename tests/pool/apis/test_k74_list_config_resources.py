from __future__ import annotations

import pytest

from mesh.pool.common.ids import GroupId
from mesh.wire.apis import ApiKey
from tests.pool.apis.harness import Client, Mesh, versions
from tests.pool.harness import GROUP

LIMIT = "share.delivery.count.limit"


@pytest.mark.parametrize("version", versions(ApiKey.LIST_CONFIG_RESOURCES))
def test_groups_of_which_something_is_set(version: int) -> None:
    mesh = Mesh()
    mesh.kept.set = {GROUP: {LIMIT: "7"}, GroupId("another"): {LIMIT: "8"}, GroupId("none"): {}}

    def listed(*types: int) -> list[str]:
        answer = Client(mesh, "tool").ask(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=types)
        assert answer.error_code == 0
        assert all(each.resource_type == 32 for each in answer.config_resources)
        return [each.resource_name for each in answer.config_resources]

    if version == 0:
        assert listed() == []
    else:
        assert listed() == listed(32, 2) == ["another", GROUP]
        assert listed(2) == []
