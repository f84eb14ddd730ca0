"""`/moves` of the admin address: moves topics of a router from one of its clusters to another.

    GET /moves                              show all topics that are or were moved, and the progress
    POST /moves?topic=orders&to=us          copy it to the cluster behind route us, and lead clients there
      &replication_factor=3      of the new topic; default: the cluster's
      &back=true                 instead of `to`: back to its previous cluster
      &dry_run=true              only say what would be done
    DELETE /moves?topic=orders              leave it where it is; the copy of a first move is deleted

`virtual_cluster=` names the virtual cluster, if there are several. Every action is logged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mesh.admin.request_parameters import NO_TOKEN, RefusedRequest
from mesh.routing.moves.checks import NotMoved
from mesh.routing.moves.machine import WrongPhase
from mesh.runtime.entity_router.moves.moves import DEFAULT_REPLICAS, MoveRequest, Moves, Plan
from mesh.runtime.entity_router.moves.shown import shown
from mesh.runtime.entity_router.moves.side import SideMissing, SideRefused, SideUnavailable
from mesh.telemetry.logs import get_logger
from mesh.upstream.store.documents import StoreError

log = get_logger(__name__)

KEYS: Final = frozenset({"virtual_cluster", "topic", "to", "back", "replication_factor", "dry_run"})
_MOST_REPLICAS: Final = 32_767


class MoveApi:
    """The HTTP interface for moves. moves: returns the moves of the virtual clusters that have some. may_change:
    returns whether requests may be answered at all."""

    def __init__(self, moves: Callable[[], Sequence[Moves]], may_change: Callable[[], bool]) -> None:
        self._moves = moves
        self._may_change = may_change

    def routes(self) -> list[Route]:
        async def moves(request: Request) -> Response:
            host = request.client.host if request.client is not None else ""
            try:
                if not self._may_change():
                    raise RefusedRequest(403, NO_TOKEN)
                return JSONResponse(await self._answer(request.method, request.query_params, host))
            except RefusedRequest as refusal:
                return JSONResponse({"problem": str(refusal)}, status_code=refusal.status)
            except (NotMoved, WrongPhase) as problem:
                return JSONResponse({"problem": f"topic: {problem}"}, status_code=409)
            except (SideUnavailable, SideMissing, SideRefused, StoreError) as problem:
                return JSONResponse({"problem": str(problem)}, status_code=503)

        return [Route("/moves", moves, methods=["GET", "POST", "DELETE"])]

    async def _answer(self, method: str, asked: QueryParams, host: str) -> dict[str, Any]:
        if unknown := sorted(set(asked) - KEYS):
            raise RefusedRequest(400, f"{unknown[0]}: not one of {', '.join(sorted(KEYS))}")
        if method not in ("POST", "DELETE"):
            named = [each for each in self._moves() if asked.get("virtual_cluster", each.name) == each.name]
            return {
                "moves": [{"virtual_cluster": each.name, **shown(mover)} for each in named for mover in each.movers]
            }
        moves = self._named(asked)
        topic = asked.get("topic", "")
        if not topic:
            raise RefusedRequest(400, "topic: name it, as clients do")
        if method == "DELETE":
            move = moves.cancel(topic)
            _log_action(moves.name, "cancel a move", topic, host)
            return {"virtual_cluster": moves.name, "topic": topic, "stays": move.source.path}
        wanted = _wanted(moves, topic, asked)
        is_dry = _flag(asked, "dry_run")
        plan = await (moves.plan(wanted) if is_dry else moves.begin(wanted))
        if not is_dry:
            _log_action(moves.name, "move", topic, host)
        return {"virtual_cluster": moves.name, "dry_run": is_dry, **_planned(plan)}

    def _named(self, asked: Mapping[str, str]) -> Moves:
        found = [each for each in self._moves() if asked.get("virtual_cluster", each.name) == each.name]
        if len(found) != 1:
            names = ", ".join(each.name for each in self._moves()) or "none: no virtual cluster has moves"
            raise RefusedRequest(400, f"virtual_cluster: {asked.get('virtual_cluster', '')!r}, not one of {names}")
        return found[0]


def _wanted(moves: Moves, topic: str, asked: Mapping[str, str]) -> MoveRequest:
    given = asked.get("replication_factor")
    if given is not None and not (re.fullmatch(r"[0-9]{1,5}", given) and 1 <= int(given) <= _MOST_REPLICAS):
        raise RefusedRequest(400, f"replication_factor: {given!r}, not a number from 1 to {_MOST_REPLICAS}")
    replicas = DEFAULT_REPLICAS if given is None else int(given)
    if not _flag(asked, "back"):
        if not (to := asked.get("to", "")):
            raise RefusedRequest(400, "to: name the route to a cluster")
        return MoveRequest(topic, to, replicas)
    if "to" in asked:
        raise RefusedRequest(400, f"to: {asked['to']!r}, not with back")
    move = next((each for each in moves.all if each.topic == topic), None)
    if move is None or not move.has_moved:
        raise RefusedRequest(409, f"topic: {topic} was not moved")
    return MoveRequest(topic, move.target.path, replicas)


def _flag(asked: Mapping[str, str], key: str) -> bool:
    given = asked.get(key, "false")
    if given not in ("true", "false"):
        raise RefusedRequest(400, f"{key}: {given!r}, not true or false")
    return given == "true"


def _log_action(virtual_cluster: str, action: str, topic: str, host: str) -> None:
    log.warning("action of an operator", virtual_cluster=virtual_cluster, action=action, topic=topic, client_host=host)


def _planned(plan: Plan) -> dict[str, Any]:
    move = plan.move
    return {
        "topic": move.topic,
        "from": move.source.path,
        "to": move.target.path,
        "partitions": move.width,
        "records": plan.records,
        "filled": plan.filled,
        "groups": list(plan.groups),
    }
