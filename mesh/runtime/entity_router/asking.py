"""Requests of the mesh to the nodes of a leaf, over the side links of a client's connection."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from typing import Final, Protocol

from mesh.routing.guards.judge import Judge
from mesh.runtime.entity_router.leaves import RouterLeaf
from mesh.runtime.entity_router.side_links import SideLinks, reason_of
from mesh.security.rules import Refusal
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.client.connection import ClientRequest
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.trees import Tree, read_tree, write_tree

_WITH_CONTROLLER: Final = 4
"""A version of Metadata that all brokers serve and that names the controller."""
_NO_TOPICS: Final[Tree] = {"topics": [], "allow_auto_topic_creation": False}


class Asker(Protocol):
    """The connection of a client. node: the node of the leaf that it leads to, by the id that its cluster gave it; None
    for any."""

    @property
    def leaf(self) -> RouterLeaf: ...

    @property
    def node(self) -> int | None: ...

    @property
    def side_links(self) -> SideLinks: ...

    @property
    def judge(self) -> Judge | None:
        """Applies the rules to the requests of a client; None if there are no rules."""

    def refused(self, api_key: ApiKey, frame: bytes, refusals: Sequence[Refusal]) -> None:
        """Notes that the rules refused parts of a request. frame: the request as it came."""


async def ask(
    links: SideLinks,
    leaf: RouterLeaf,
    node: int | None,
    api_key: ApiKey,
    version: int,
    request: Tree,
    patience: float,
    waits: float = 0.0,
    others_than: Container[int] = (),
) -> Tree | None:
    """Sends a request to a node, and returns its response; None if there is none in time.

    node: None for any, or for the controller if others refuse the request: brokers with ZooKeeper do not pass it on.
    others_than: nodes that are asked only if no other one can be.
    waits: seconds for which the request itself lets the node wait. patience: seconds that the node has beyond that.
    """
    answer = await _ask(links, leaf, node, api_key, version, request, patience, waits, others_than)
    if answer is None or node is not None or not _is_refused_by_others(answer):
        return answer
    known = await _ask(links, leaf, None, ApiKey.METADATA, _WITH_CONTROLLER, _NO_TOPICS, patience, 0.0)
    if known is None or known["controller_id"] not in leaf.nodes.known:
        return answer
    return await _ask(links, leaf, known["controller_id"], api_key, version, request, patience, waits)


async def _ask(
    links: SideLinks,
    leaf: RouterLeaf,
    node: int | None,
    api_key: ApiKey,
    version: int,
    request: Tree,
    patience: float,
    waits: float,
    others_than: Container[int] = (),
) -> Tree | None:
    body = write_tree(api_key, version, Direction.REQUEST, request)
    sent = ClientRequest(api_key, version, is_flexible(api_key, version), (body,))
    try:
        async with asyncio.timeout(patience + waits):
            response = await links.ask(leaf, sent, waits, node, others_than)
        return read_tree(api_key, version, Direction.RESPONSE, response.frame[response.body :])
    except (Unreachable, ProtocolError, TimeoutError) as problem:
        leaf.services.traffic.not_answered(api_key, reason_of(problem))
        return None


def _is_refused_by_others(answer: Tree) -> bool:
    """Returns True if a broker refused a whole request because it is not the controller."""
    codes = {answer.get("error_code")}
    for elements in answer.values():
        if isinstance(elements, list):
            codes |= {each.get("error_code") for each in elements if isinstance(each, dict)}
    return ErrorCode.NOT_CONTROLLER in codes
