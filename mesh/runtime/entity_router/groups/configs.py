"""Configurations of groups. Each cluster has them, since a group may have members in every cluster."""

from __future__ import annotations

import asyncio
from typing import Final

from mesh.routing.kit.errors import error_answer
from mesh.routing.kit.translation import GROUP
from mesh.runtime.entity_router.asking import Asker, ask
from mesh.runtime.entity_router.groups.services import GroupServices
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree


class GroupConfigs:
    """Changes the configurations of groups in the clusters that are not their home. The home's response is the
    client's."""

    def __init__(self, services: GroupServices) -> None:
        self._services: Final = services

    async def refusal(self, asker: Asker, api_key: ApiKey, version: int, request: Tree) -> Tree | None:
        """The response to AlterConfigs and IncrementalAlterConfigs if a cluster has not made the change; None if the
        request may continue to the home."""
        services = self._services
        groups = [each for each in request["resources"] if each["resource_type"] == GROUP]
        asking = []
        for leaf in services.leaves:
            elsewhere = [each for each in groups if services.entities.group_home(each["resource_name"]) != leaf.number]
            if elsewhere:
                asked = {**request, "resources": elsewhere}
                links, timeout = asker.side_links, services.timeout()
                asking.append(ask(links, leaf, None, api_key, version, asked, timeout))
        for answer in await asyncio.gather(*asking):
            if answer is None:
                return error_answer(api_key, version, request, ErrorCode.REQUEST_TIMED_OUT)
            for each in answer["responses"]:
                if each["error_code"]:
                    return error_answer(api_key, version, request, each["error_code"], each["error_message"])
        return None
