"""`kafka-mesh replay`: its requests to the admin address, and its output."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mesh.commands.status import ask

TIMEOUT = 20.0
"""Seconds for an answer. The mesh asks the clusters for the offsets of a time."""


def request(
    url: str, token: str | None, trusted: Path | None, asked: Mapping[str, object], method: str = "GET"
) -> Mapping[str, Any]:
    """Sends a request about replays. asked: keys of /replays; None leaves one out, and a list becomes several. Raises
    StatusUnavailable."""
    named = {key: value for key, value in asked.items() if value is not None}
    return ask(url, "/replays?" + urlencode(named, doseq=True), token, trusted, method, TIMEOUT)


def format_started(found: Mapping[str, Any]) -> str:
    """Returns a description of the replay that was started, or would be."""
    if found["dry_run"]:
        head = f"dry run: would deliver {_offsets(found['offsets'])} again to group {found['group']}"
    else:
        head = f"replay {found['replay']}: {_offsets(found['offsets'])} again to group {found['group']}"
    lines = [head, *map(_partition, found["partitions"])]
    if found["elsewhere"]:
        lines.append(f"not assigned to this process, ask the others: {', '.join(found['elsewhere'])}")
    return "\n".join(lines)


def format_cancelled(found: Mapping[str, Any]) -> str:
    out = found["delivered_and_not_acknowledged"]
    held = f"; members may have up to {_offsets(out)} of them" if out else ""
    return f"replay {found['replay']} is cancelled: {_offsets(found['left'])} were left{held}"


def format_list(found: Mapping[str, Any]) -> str:
    """Returns one line for each replay."""
    return "\n".join(map(_line, found["replays"])) or "no unfinished replay in this process"


def format_details(replay: Mapping[str, Any]) -> str:
    """Returns a description of one replay, with its partitions."""
    return "\n".join([_line(replay), *map(_partition, replay["partitions"])])


def _line(replay: Mapping[str, Any]) -> str:
    done = replay["offsets"] - replay["left"]
    percent = 100 * done // replay["offsets"]
    since = datetime.fromtimestamp(replay["begun"] / 1000, UTC).isoformat(timespec="seconds")
    rate = f", {replay['rate']} a second" if replay["rate"] is not None else ""
    chosen = [f"key {replay['key']}"] if replay["key"] is not None else []
    chosen += [f"header {name}={value}" for name, value in replay["headers"].items()]
    of = f", of {' and '.join(chosen)}" if chosen else ""
    return (
        f"{replay['replay']} of group {replay['group']} at {replay['virtual_cluster']}: {replay['state']}, "
        f"{done} of {_offsets(replay['offsets'])} done ({percent} %){rate}{of}, begun {since}"
    )


def _partition(each: Mapping[str, Any]) -> str:
    return f"  {each['partition']}@{each['first']}-{each['last']}: {each['left']} of {each['offsets']} left"


def _offsets(count: int) -> str:
    return "1 offset" if count == 1 else f"{count} offsets"
