"""The coordinators of groups in clusters that are not their home, which clients do not know."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.asking import ask
from mesh.runtime.entity_router.leaves import RouterLeaf
from mesh.runtime.entity_router.side_links import SideLinks
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

MOST_KNOWN: Final = 20_000
CREATED_WITHIN: Final = 2.0
"""Seconds for which a cluster that reports no coordinator is asked again. It creates its topic of group offsets when a
client first looks for a coordinator. Clients ask again, too."""
RETRY_INTERVAL: Final = 0.1
_FIND_VERSION: Final = 1
_GROUP: Final = 0
_MOVED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})


class GroupCoordinators:
    """Finds the coordinators of groups in each cluster, and sends requests to them. timeout: returns the seconds that
    each request has."""

    def __init__(self, timeout: Callable[[], float]) -> None:
        self._timeout: Final = timeout
        self._known: OrderedDict[tuple[LeafNumber, str], int] = OrderedDict()

    async def ask(
        self,
        links: SideLinks,
        leaf: RouterLeaf,
        group: str,
        api_key: ApiKey,
        version: int,
        request: Tree,
        waits: float = 0.0,
    ) -> Tree | None:
        """Sends a request to the coordinator of a group, and returns the response; None if there is none. version: the
        highest to use. If the coordinator has moved, asks the new one."""
        known = self._known.get((leaf.number, group))
        if known is not None:
            answer = await self._ask(links, leaf, known, api_key, version, request, waits)
            if answer is not None and not _MOVED & codes_of(answer):
                return answer
            self._known.pop((leaf.number, group), None)
            if answer is None:
                return None
        node = await self._find(links, leaf, group)
        if node is None:
            return None
        self._known[leaf.number, group] = node
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return await self._ask(links, leaf, node, api_key, version, request, waits)

    async def _ask(
        self, links: SideLinks, leaf: RouterLeaf, node: int, api_key: ApiKey, version: int, request: Tree, waits: float
    ) -> Tree | None:
        highest = highest_at(leaf, node, api_key)
        return await ask(links, leaf, node, api_key, min(version, highest), request, self._timeout(), waits)

    async def _find(self, links: SideLinks, leaf: RouterLeaf, group: str) -> int | None:
        request, clock = {"key": group, "key_type": _GROUP}, asyncio.get_running_loop().time
        end = clock() + min(self._timeout(), CREATED_WITHIN)
        while True:
            answer = await ask(links, leaf, None, ApiKey.FIND_COORDINATOR, _FIND_VERSION, request, self._timeout())
            if answer is None or answer["error_code"] != ErrorCode.COORDINATOR_NOT_AVAILABLE or clock() >= end:
                break
            await asyncio.sleep(RETRY_INTERVAL)
        if answer is None or answer["error_code"]:
            return None
        leaf.nodes.notice(answer["node_id"], answer["host"], answer["port"])
        return int(answer["node_id"])


def highest_at(leaf: RouterLeaf, node: int, api_key: ApiKey) -> int:
    """The highest version that a node is known to serve; a large number if it has not reported its versions."""
    known = leaf.nodes.known.get(node)
    versions: Versions | None = None if known is None or known.versions is None else known.versions.get(api_key)
    return 1 << 15 if versions is None else versions.highest


def codes_of(tree: Any) -> set[int]:
    """Returns all error codes in a response."""
    match tree:
        case dict():
            own = {tree["error_code"]} if "error_code" in tree else set[int]()
            return own.union(*map(codes_of, tree.values()))
        case list():
            return set[int]().union(*map(codes_of, tree))
        case _:
            return set()
