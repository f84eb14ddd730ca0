"""`status`, `drain` and `reload`: of a mesh that runs, by its admin address."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mesh.commands.shared import AdminToken, AdminUrl, MeshFile, Trust, give_up, refuse, where


def status(
    file: MeshFile = None,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what /status answers.")] = False,
    streams: Annotated[bool, typer.Option("--streams", help="The topology descriptions of streams groups.")] = False,
    group: Annotated[str | None, typer.Option(help="With --streams: the topology of this group.")] = None,
    virtual_cluster: Annotated[str | None, typer.Option(help="With --group: which one, of several.")] = None,
) -> None:
    """Show the pools and relays of a running mesh: members, what each holds, and why one gets nothing."""
    import json

    from rich.console import Console

    from mesh.commands.status import StatusUnavailable, fetch, show
    from mesh.commands.streams_status import fetch_topology, show_streams

    try:
        if streams and group is not None:
            topology = fetch_topology(*where(file, url, token), trust, group, virtual_cluster)
            typer.echo(json.dumps(topology, indent=2, ensure_ascii=False) if as_json else topology["text"])
            return
        found = fetch(*where(file, url, token), trust)
    except StatusUnavailable as problem:
        give_up(problem)
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        (show_streams if streams else show)(found, Console(width=None if sys.stdout.isatty() else 200))


def drain(
    group: Annotated[str, typer.Option(help="The group whose pool is meant.")],
    file: MeshFile = None,
    virtual_cluster: Annotated[str | None, typer.Option(help="Which one, where there are several.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Serve that pool again.")] = False,
    grace: Annotated[float | None, typer.Option(min=0, help="Seconds to commit; else drain_grace.")] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait until it is drained.")] = 60.0,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    """Let one pool of a running mesh commit what it holds and leave its upstream groups; its members stay, and wait."""
    from mesh.commands.drain import NotDrained
    from mesh.commands.drain import drain as drain_pool
    from mesh.commands.status import StatusUnavailable

    try:
        address, known = where(file, url, token)
        drain_pool(
            address,
            known,
            trust,
            group=group,
            virtual_cluster=virtual_cluster,
            grace=grace,
            cancel=cancel,
            timeout=timeout,
            tell=typer.echo,
        )
    except (StatusUnavailable, NotDrained) as problem:
        give_up(problem)


def reload(
    file: MeshFile = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait until everything has changed.")] = 120.0,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    """Let a running mesh read its configuration again: all of it is used, or nothing of it."""
    from mesh.commands.reload import NotReloaded
    from mesh.commands.reload import reload as reload_mesh
    from mesh.commands.status import StatusUnavailable

    try:
        reload_mesh(*where(file, url, token), trust, timeout, typer.echo)
    except NotReloaded as refused:
        refuse(refused.file, refused.problems)
    except StatusUnavailable as problem:
        give_up(problem)
