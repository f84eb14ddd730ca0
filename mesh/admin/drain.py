"""`/drain` of the admin address: drains one pool, or serves it again. docs/operations.md explains the effect on
members.

    POST /drain?group=billing             deliver nothing more, let members commit, leave the upstream groups
    GET /drain?group=billing              show the progress
    DELETE /drain?group=billing           serve again

`virtual_cluster=` names the virtual cluster, if there are several. `grace=` is the time for members to commit, in
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesh.pool.common.ids import GroupId
from mesh.runtime.pool.runtime import PoolRuntime

LONGEST_GRACE = 3_600.0


def answer(
    servers: Sequence[PoolRuntime], grace: float, method: str, asked: Mapping[str, str]
) -> tuple[int, dict[str, Any]]:
    """Returns the HTTP status and body of an answer to /drain. grace: the default in seconds."""
    named = [server for server in servers if server.name == asked.get("virtual_cluster", server.name)]
    group = GroupId(asked.get("group", ""))
    if not group:
        return 400, {"problem": "group: name the group"}
    if len({server.name for server in named}) != 1:
        names = ", ".join(server.name for server in servers)
        return 400, {"problem": f"virtual_cluster: {asked.get('virtual_cluster', '')!r}, not one of {names}"}
    seconds = _grace(asked.get("grace"), grace)
    if seconds is None:
        return 400, {"problem": f"grace: {asked['grace']!r}, not seconds from 0 to {LONGEST_GRACE:g}"}
    server = next((each for each in named if each.admits(group)), named[0])
    if method == "POST":
        server.drain_pool(group, seconds)
    elif method == "DELETE":
        server.serve_again(group)
    drain_state, held = server.core.drain_state(group)
    pool = server.core.pools.get(group)
    members = sum(1 for _ in pool.members) if pool is not None else 0
    return 200, {
        "virtual_cluster": server.name,
        "group": group,
        "state": drain_state.value,
        "held": held,
        "members": members,
        "leaving": server.engines.is_closing(group),
    }


def _grace(asked: str | None, usual: float) -> float | None:
    try:
        seconds = float(asked) if asked is not None else usual
    except ValueError:
        return None
    return seconds if 0 <= seconds <= LONGEST_GRACE else None
