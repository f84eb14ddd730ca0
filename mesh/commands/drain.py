"""`kafka-mesh drain`: tells a running mesh to drain one pool, or to serve it again, and waits until it has."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mesh.commands.status import StatusUnavailable, ask

INTERVAL = 0.25


class NotDrained(Exception):
    """It took too long. The message is one line."""


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
    tell: Callable[[str], None],
) -> None:
    """Raises StatusUnavailable and NotDrained. tell: prints a line when there is something new."""
    named = {"group": group, "virtual_cluster": virtual_cluster, "grace": grace}
    path = "/drain?" + urlencode({name: value for name, value in named.items() if value is not None})
    deadline = time.monotonic() + timeout
    found = ask(url, path, token, trusted, "DELETE" if cancel else "POST")
    told = ""
    while True:
        state = _state_of(found)
        if state != told:
            tell(state)
            told = state
        if cancel or (found["state"] == "drained" and not found["leaving"]):
            return
        if time.monotonic() > deadline:
            raise NotDrained(f"not drained within {timeout:g} s: {state}; --cancel undoes it")
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
        raise StatusUnavailable("what answers there does not answer as kafka-mesh does") from problem
