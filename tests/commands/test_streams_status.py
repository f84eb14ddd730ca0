"""`kafka-mesh status --streams`, in a terminal."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from mesh.commands.streams_status import show_streams


def shown(*groups: dict[str, Any]) -> list[list[str]]:
    """The words of each line."""
    streams = {"plugin": "store", "problem": "", "groups": [{"stored": 3, "failed": -1, **each} for each in groups]}
    out = io.StringIO()
    status = {"virtual_clusters": [{"name": "pools"}, {"name": "front", "streams": streams}]}
    show_streams(status, Console(file=out, width=100))
    return [line.split() for line in out.getvalue().splitlines()]


def test_groups_of_a_relay() -> None:
    title, columns, group = shown({"group": "g"})
    assert title == ["front:", "kept", "by", "store"]
    assert columns == ["group", "stored", "epoch", "failed", "epoch"]
    assert group == ["g", "3", "none"]


def test_groups_behind_a_router() -> None:
    _, columns, *groups = shown({"group": "g", "cluster": "eu"}, {"group": "g", "cluster": "us", "stored": -2})
    assert columns[:2] == ["group", "cluster"]
    assert groups == [["g", "eu", "3", "none"], ["g", "us", "uncertain", "none"]]
