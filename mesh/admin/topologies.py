"""`/topologies` of the admin address: the topology of one streams group, as it was described.

    GET /topologies?group=counts     its epochs and its description, also as a Mermaid flowchart and as a picture

`virtual_cluster=` names the virtual cluster, if there are several. `cluster=` names the group's cluster, if several
clusters behind a router have a group of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mesh.runtime.topologies.topologies import Topologies
from mesh.streams.description import mermaid, tree_of
from mesh.streams.picture import svg
from mesh.upstream.store.documents import StoreError

_NOBODY: Final = "none: no virtual cluster has topology_descriptions"


class TopologyApi:
    """The HTTP interface for topologies. served: returns those of the virtual clusters that serve descriptions."""

    def __init__(self, served: Callable[[], Sequence[Topologies]]) -> None:
        self._served = served

    def routes(self) -> list[Route]:
        async def topologies(request: Request) -> Response:
            status_code, body = await answer(self._served(), request.query_params)
            return JSONResponse(body, status_code=status_code)

        return [Route("/topologies", topologies, methods=["GET"])]


async def answer(served: Sequence[Topologies], asked: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """Returns the HTTP status and the body of the answer."""
    named = [each for each in served if each.name == asked.get("virtual_cluster", each.name)]
    group = asked.get("group", "")
    if not group:
        return 400, {"problem": "group: name the group"}
    if len({each.name for each in named}) != 1:
        names = ", ".join(dict.fromkeys(each.name for each in served)) or _NOBODY
        return 400, {"problem": f"virtual_cluster: {asked.get('virtual_cluster', '')!r}, not one of {names}"}
    try:
        topologies = _those_of(named, group, asked.get("cluster"))
        epochs = topologies.epochs(group)
    except StoreError as problem:
        return 503, {"problem": str(problem)}
    except _Ambiguous as problem:
        return 400, {"problem": f"cluster: {asked.get('cluster', '')!r}, not one of {problem}"}
    status, description = await topologies.described(group, epochs.stored)
    body: dict[str, Any] = {
        "virtual_cluster": topologies.name,
        **({} if topologies.cluster is None else {"cluster": topologies.cluster}),
        "group": group,
        "stored": epochs.stored,
        "failed": epochs.failed,
        "status": status.name,
    }
    if description is not None:
        body |= {"description": tree_of(description), "mermaid": mermaid(description), "svg": svg(description)}
    return 200, body


class _Ambiguous(Exception):
    """Raised when the request names no cluster, or an unknown one. The message has the allowed ones."""


def _those_of(named: Sequence[Topologies], group: str, cluster: str | None) -> Topologies:
    """Returns the topologies for a request. named: those of one virtual cluster. Raises StoreError and _Ambiguous."""
    there = [each for each in named if cluster in (None, each.cluster)]
    holding = [each for each in there if group in each.groups()]
    if not there or len(holding) > 1:
        raise _Ambiguous(", ".join(str(each.cluster) for each in holding or named))
    return holding[0] if holding else there[0]
