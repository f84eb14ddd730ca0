"""`kafka-mesh status`: asks a running mesh at its admin address, and prints the answer."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mesh.commands.terminal import plain, printable

TIMEOUT = 5.0


class StatusUnavailable(Exception):
    """Raised when nothing answers at an address, or something other than kafka-mesh does. The message is one line."""


class RefusedByMesh(StatusUnavailable):
    """Raised when the admin address refuses a request. answer: the JSON object in its body, if there is one. code: the
    HTTP status."""

    def __init__(self, message: str, answer: Mapping[str, Any], code: int) -> None:
        super().__init__(message)
        self.answer = answer
        self.code = code


def fetch(url: str, token: str | None = None, trusted: Path | None = None) -> Mapping[str, Any]:
    """Returns the answer of `/status`. url: the admin address, e.g. http://127.0.0.1:9644. trusted: certificates (PEM)
    to trust beside the system's.

    Raises StatusUnavailable.
    """
    found = ask(url.rstrip("/").removesuffix("/status"), "/status", token, trusted)
    if "virtual_clusters" not in found:
        raise StatusUnavailable(f"{url.rstrip('/').removesuffix('/status')}/status is not a kafka-mesh admin address")
    return found


def ask(
    url: str,
    path: str,
    token: str | None = None,
    trusted: Path | None = None,
    method: str = "GET",
    timeout: float = TIMEOUT,
) -> Mapping[str, Any]:
    """Returns the answer of the admin address to one request. Raises StatusUnavailable, also for a refusal."""
    address = url.rstrip("/") + path
    if not address.startswith(("http://", "https://")):
        raise StatusUnavailable(f"{url}: not an address, begin with http:// or https://")
    try:
        context = ssl.create_default_context()
        if trusted is not None:
            context.load_verify_locations(trusted)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(address, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=timeout, context=context) as response:
            found = json.load(response)
    except urllib.error.HTTPError as problem:
        raise _refusal(address, problem) from problem
    except (OSError, urllib.error.URLError) as problem:
        reason = getattr(problem, "reason", problem)
        raise StatusUnavailable(f"no answer at {address}: {reason}") from problem
    except ValueError as problem:
        raise StatusUnavailable(f"{address} is not a kafka-mesh admin address") from problem
    if not isinstance(found, dict):
        raise StatusUnavailable(f"{address} is not a kafka-mesh admin address")
    return found


def _refusal(address: str, problem: urllib.error.HTTPError) -> RefusedByMesh:
    try:
        answer = json.load(problem)
        return RefusedByMesh(str(answer["problem"]), answer, problem.code)
    except (ValueError, KeyError, TypeError):
        return RefusedByMesh(f"{address} answers {problem.code} {problem.reason}", {}, problem.code)


def show(status: Mapping[str, Any], console: Console) -> None:
    for cluster in status["virtual_clusters"]:
        if "relay" in cluster:
            relay = cluster["relay"]
            title = f"{cluster['name']} / relay of {relay['cluster']}: {cluster['connections']} connections"
            console.print(_nodes(relay["nodes"], title))
            continue
        if "router" in cluster:
            console.print(printable(f"{cluster['name']}: {cluster['connections']} connections"), markup=False)
            for leaf in cluster["router"]["leaves"]:
                console.print(_nodes(leaf["nodes"], f"{cluster['name']} / {leaf['path']}: cluster {leaf['cluster']}"))
            for move in cluster["router"].get("moves", ()):
                console.print(printable(move_line({"virtual_cluster": cluster["name"], **move})), markup=False)
            for route in cluster["router"].get("routes", ()):
                console.print(
                    printable(f"{cluster['name']} / {route['route']}: {route['connections']} connections"), markup=False
                )
        if "pools" not in cluster:
            continue
        if not cluster["pools"]:
            console.print(printable(f"{cluster['name']}: no group has members here"), markup=False)
        for pool in cluster["pools"]:
            title = f"{cluster['name']} / {pool['group']}: {pool['state']}, lag {pool['lag']}"
            console.print(_members(pool, title))
            console.print(_partitions(pool))
            for replay in pool.get("replays", ()):
                done = f"{replay['offsets'] - replay['left']} of {replay['offsets']}"
                console.print(
                    printable(f"replay {replay['replay']}: {replay['state']}, {done} offsets done"), markup=False
                )


def move_line(move: Mapping[str, Any]) -> str:
    """Returns a line about the move of a topic, in progress or finished."""
    text = f"{move['topic']} of {move['virtual_cluster']} is at {move['at']}: {move['state']}"
    if move["left"] is not None:
        text += f" to {move['other']}, {move['left']} records left, {move['per_second']} a second"
    if move["state"] == "moved":
        text += f", the other side is {move['other']}"
    if move["carried"]:
        offsets = "1 offset" if move["carried"] == 1 else f"{move['carried']} offsets"
        text += f", {offsets} of groups not committed again yet"
    return f"{text} ({move['problem']})" if move["problem"] else text


def _nodes(nodes: Sequence[Mapping[str, Any]], title: str) -> Table:
    columns = ("node", "address", "upstream", "legs", "requests", "MB in", "MB out", "APIs", "problem")
    table = _table(title, columns)
    for node in nodes:
        table.add_row(
            str(node["node"]),
            _addresses(node),
            node["upstream"],
            str(node["legs"]),
            str(node["requests"]),
            f"{node['bytes_in'] / 1e6:.1f}",
            f"{node['bytes_out'] / 1e6:.1f}",
            str(len(node["versions"])) if node["versions"] else "",
            plain(node["problem"]),
        )
    return table


def _addresses(node: Mapping[str, Any]) -> str:
    """Returns the address at the first listener, and the addresses at others with their names."""
    further = (f"{name} {address or 'none'}" for name, address in node.get("further_addresses", {}).items())
    return ", ".join([node["address"] or "none", *further])


def _members(pool: Mapping[str, Any], title: str) -> Table:
    columns = ("member", "client", "host", "conns", "protocol", "settles by", "holds", "cap", "oldest", "gets nothing")
    table = _table(title, columns)
    for member in pool["members"]:
        table.add_row(
            plain(member["id"]),
            plain(member["client_id"]),
            plain(member["client_host"]),
            str(member["connections"]),
            member["protocol"],
            member["acknowledge"],
            f"{member['records']} in {member['spans']}",
            "-" if member["cap"] is None else str(member["cap"]),
            _seconds(member["oldest_held_seconds"]),
            plain(member["reason"] or ""),
        )
    return table


def _partitions(pool: Mapping[str, Any]) -> Table:
    columns = ("partition", "upstream", "standing", "committed", "end", "lag", "backlog", "oldest", "age", "held by")
    table = _table("", columns)
    for each in pool["partitions"]:
        oldest = each["oldest_unacknowledged"] or {}
        table.add_row(
            plain(f"{each['topic']}-{each['partition']}"),
            plain(f"{each['cluster']}/{each['upstream_topic']}-{each['upstream_partition']}"),
            each["standing"] if each["source"] == "up" else "source down",
            _number(each["committed"]),
            str(each["end"]),
            _number(each["lag"]),
            str(each["backlog"]),
            str(oldest.get("offset", "")),
            _seconds(oldest.get("record_age_seconds")),
            plain(oldest.get("member") or ""),
        )
    return table


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=plain(title), title_justify="left", box=None, pad_edge=False)
    for column in columns:
        numeric = column in {"conns", "cap", "committed", "end", "lag", "backlog", "oldest", "age"} | {
            "node",
            "legs",
            "requests",
            "MB in",
            "MB out",
            "APIs",
        }
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    return table


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"
