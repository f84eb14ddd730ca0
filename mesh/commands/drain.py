"""`kafka-mesh drain`: asks a running mesh to drain one pool, or to serve it again, and waits until it has."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mesh.commands.status import StatusUnavailable, ask

INTERVAL = 0.25


class NotDrained(Exception):
    """Raised when a drain took too long. The message is one line."""


def drain(
    url: str,
    token: str | None,
    trusted: Path | None,
    *,
    group: str,
    virtual_cluster: str | None,
    grace: float | None,
    cancel: bool,
    timeout: float,
    report: Callable[[str], None],
) -> None:
    """Drains a pool, and waits for the end. report: called with each line of news. Raises StatusUnavailable and
    NotDrained."""
    named = {"group": group, "virtual_cluster": virtual_cluster, "grace": grace}
    path = "/drain?" + urlencode({name: value for name, value in named.items() if value is not None})
    deadline = time.monotonic() + timeout
    found = ask(url, path, token, trusted, "DELETE" if cancel else "POST")
    reported = ""
    while True:
        state = _state_of(found)
        if state != reported:
            report(state)
            reported = state
        if cancel or (found["state"] == "drained" and not found["leaving"]):
            return
        if time.monotonic() > deadline:
            raise NotDrained(f"not drained within {timeout:g} s: {state}; undo with --cancel")
        time.sleep(INTERVAL)
        found = ask(url, path, token, trusted, "GET")


def _state_of(found: Mapping[str, Any]) -> str:
    try:
        name = f"{found['virtual_cluster']} / {found['group']}"
        if found["state"] == "draining":
            return f"{name}: draining, {found['members']} members hold {found['held']} records"
        leaving = ", leaving the upstream groups" if found["leaving"] else ""
        return f"{name}: {found['state']}{leaving}, {found['members']} members"
    except KeyError as problem:
        raise StatusUnavailable("not a kafka-mesh admin address") from problem
