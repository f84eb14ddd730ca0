"""`kafka-mesh status --streams`: the topology descriptions that a running mesh keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from rich.console import Console
from rich.table import Table

from mesh.commands.status import ask
from mesh.commands.terminal import plain

_UNCERTAIN = -2


def show_streams(status: Mapping[str, Any], console: Console) -> None:
    served = [each for each in status["virtual_clusters"] if "streams" in each]
    if not served:
        console.print("no virtual cluster has topology_descriptions")
    for cluster in served:
        streams = cluster["streams"]
        table = Table(title=plain(f"{cluster['name']}: kept by {streams['plugin']}"), title_justify="left", box=None)
        has_clusters = any("cluster" in each for each in streams["groups"])
        names = ("group", "cluster") if has_clusters else ("group",)
        for column in (*names, "stored epoch", "failed epoch"):
            table.add_column(column, justify="left" if column in names else "right", overflow="fold")
        for each in streams["groups"]:
            table.add_row(*(plain(each[name]) for name in names), _epoch(each["stored"]), _epoch(each["failed"]))
        console.print(table)
        if streams["problem"]:
            console.print(plain(streams["problem"]))


def _epoch(epoch: int) -> str:
    return "uncertain" if epoch == _UNCERTAIN else "none" if epoch < 0 else str(epoch)


def fetch_topology(
    url: str,
    token: str | None,
    trusted: Path | None,
    group: str,
    virtual_cluster: str | None,
    cluster: str | None = None,
) -> Mapping[str, Any]:
    """Returns the answer of /topologies about a group; `text` is for people. Raises StatusUnavailable."""
    places = {"virtual_cluster": virtual_cluster, "cluster": cluster}
    asked = {"group": group} | {key: name for key, name in places.items() if name is not None}
    found = dict(ask(url.rstrip("/").removesuffix("/status"), f"/topologies?{urlencode(asked)}", token, trusted))
    found.pop("svg", None)
    stored = f"stored epoch {_epoch(found['stored'])}, failed epoch {_epoch(found['failed'])}: {found['status']}"
    return {**found, "text": found.get("mermaid") or stored}
