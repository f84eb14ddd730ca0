"""`/topologies` of the admin address: the topology of one streams group, as it was described.

    GET /topologies?group=counts     its epochs, its description, and that as a flowchart of Mermaid and as a picture

`virtual_cluster=` names which one is meant, where there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mesh.runtime.topologies.topologies import Topologies
from mesh.streams.description import mermaid, tree_of
from mesh.streams.picture import svg
from mesh.upstream.store.documents import StoreError


class TopologyApi:
    """The topologies of all virtual clusters. served: those that serve descriptions now."""

    def __init__(self, served: Callable[[], Sequence[Topologies]]) -> None:
        self._served = served

    def routes(self) -> list[Route]:
        async def topologies(request: Request) -> Response:
            status_code, body = await answer(self._served(), request.query_params)
            return JSONResponse(body, status_code=status_code)

        return [Route("/topologies", topologies, methods=["GET"])]


async def answer(served: Sequence[Topologies], asked: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """The HTTP status, and what to say."""
    named = [each for each in served if each.name == asked.get("virtual_cluster", each.name)]
    group = asked.get("group", "")
    if not group:
        return 400, {"problem": "group: name the group"}
    if len(named) != 1:
        names = ", ".join(each.name for each in served) or "none: no virtual cluster has topology_descriptions"
        return 400, {"problem": f"virtual_cluster: {asked.get('virtual_cluster', '')!r}, not one of {names}"}
    (topologies,) = named
    try:
        epochs = topologies.epochs(group)
    except StoreError as problem:
        return 503, {"problem": str(problem)}
    status, description = await topologies.described(group, epochs.stored)
    body: dict[str, Any] = {
        "virtual_cluster": topologies.name,
        "group": group,
        "stored": epochs.stored,
        "failed": epochs.failed,
        "status": status.name,
    }
    if description is not None:
        body |= {"description": tree_of(description), "mermaid": mermaid(description), "svg": svg(description)}
    return 200, body
