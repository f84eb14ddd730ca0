"""`kafka-mesh move`: its requests to the admin address, and its output."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mesh.commands.status import ask, move_line

TIMEOUT = 60.0
"""Seconds for an answer. The mesh asks both clusters about the topic, and about all groups."""


def request(
    url: str, token: str | None, trusted: Path | None, asked: Mapping[str, object], method: str = "GET"
) -> Mapping[str, Any]:
    """Sends a request about moves. asked: keys of /moves; those that are None are left out. Raises
    StatusUnavailable."""
    named = {key: value for key, value in asked.items() if value is not None}
    return ask(url, "/moves?" + urlencode(named), token, trusted, method, TIMEOUT)


def format_started(found: Mapping[str, Any]) -> str:
    """Returns a description of the move that was started, or would be."""
    head = "dry run: would move" if found["dry_run"] else "moving"
    partitions = _counted(found["partitions"], "partition")
    lines = [f"{head} {found['topic']} from {found['from']} to {found['to']}: {partitions}, {found['records']} records"]
    if found["filled"]:
        lines.append(f"  {found['filled']} offsets in front of the first records are filled, and deleted")
    groups = ", ".join(found["groups"]) or "none"
    lines.append(f"  groups whose offsets move along: {groups}")
    return "\n".join(lines)


def format_cancelled(found: Mapping[str, Any]) -> str:
    return f"{found['topic']} stays at {found['stays']}"


def format_list(found: Mapping[str, Any]) -> str:
    """Returns one line for each move."""
    return "\n".join(map(move_line, found["moves"])) or "no topic is moved, or was"


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"
