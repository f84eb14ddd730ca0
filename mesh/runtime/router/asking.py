"""Requests of the mesh to the nodes of a leaf, over the connections of whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from mesh.routing.guards.judge import Judge
from mesh.runtime.router.leaves import RouterLeaf
from mesh.runtime.router.side_links import SideLinks, reason_of
from mesh.security.rules import Refusal
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.client.connection import ClientRequest
from mesh.wire.entities import Side
from mesh.wire.errors import ProtocolError
from mesh.wire.trees import Tree, read_tree, write_tree


class Asker(Protocol):
    """The connection of a client. node: of the leaf that it leads to, by the id that its cluster gave it; None: any."""

    @property
    def leaf(self) -> RouterLeaf: ...

    @property
    def node(self) -> int | None: ...

    @property
    def side_links(self) -> SideLinks: ...

    @property
    def judge(self) -> Judge | None:
        """None: there are no rules."""

    def refused(self, api_key: ApiKey, frame: bytes, refusals: Sequence[Refusal]) -> None:
        """frame: of the request, as it came."""


async def ask(
    links: SideLinks,
    leaf: RouterLeaf,
    node: int | None,
    api_key: ApiKey,
    version: int,
    request: Tree,
    patience: float,
    waits: float = 0.0,
) -> Tree | None:
    """The answer of a node; None if there is none.

    node: None for any. patience: seconds that it has, besides those that it is asked to wait.
    """
    body = write_tree(api_key, version, Side.REQUEST, request)
    sent = ClientRequest(api_key, version, is_flexible(api_key, version), (body,))
    try:
        async with asyncio.timeout(patience + waits):
            response = await links.ask(leaf, sent, waits, node)
        return read_tree(api_key, version, Side.RESPONSE, response.frame[response.body :])
    except (Unreachable, ProtocolError, TimeoutError) as problem:
        leaf.services.traffic.not_answered(api_key, reason_of(problem))
        return None
