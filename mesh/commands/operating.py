"""`status`, `drain` and `reload`: commands for a running mesh, through its admin address."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mesh.commands.shared import (
    AdminToken,
    AdminUrl,
    MeshFile,
    Trust,
    exit_with_mistakes,
    exit_with_problem,
    find_admin_address,
)
from mesh.commands.terminal import echo, echo_answer, echo_json


def status(
    file: MeshFile = None,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON of /status.")] = False,
    streams: Annotated[bool, typer.Option("--streams", help="Show topology descriptions of streams groups.")] = False,
    group: Annotated[str | None, typer.Option(help="With --streams: show the topology of this group.")] = None,
    virtual_cluster: Annotated[
        str | None, typer.Option(help="With --group: the virtual cluster, if there are several.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="With --group: the cluster behind a router, if several have such a group.")
    ] = None,
) -> None:
    """Show the pools and relays of a running mesh: members, what each holds, and why a member gets nothing."""

    from rich.console import Console

    from mesh.commands.status import StatusUnavailable, fetch, show
    from mesh.commands.streams_status import fetch_topology, show_streams

    try:
        if streams and group is not None:
            topology = fetch_topology(*find_admin_address(file, url, token), trust, group, virtual_cluster, cluster)
            echo_answer(topology, as_json, lambda each: str(each["text"]))
            return
        found = fetch(*find_admin_address(file, url, token), trust)
    except StatusUnavailable as problem:
        exit_with_problem(problem)
    if as_json:
        echo_json(found)
    else:
        (show_streams if streams else show)(found, Console(width=None if sys.stdout.isatty() else 200))


def drain(
    group: Annotated[str, typer.Option(help="The group of the pool.")],
    file: MeshFile = None,
    virtual_cluster: Annotated[str | None, typer.Option(help="The virtual cluster, if there are several.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Undo a drain: serve the pool again.")] = False,
    grace: Annotated[
        float | None, typer.Option(min=0, help="Seconds for members to commit; default: drain_grace.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for the end of the drain.")] = 60.0,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    """Drain one pool: members commit, and the mesh leaves its upstream groups. Members stay, and wait."""
    from mesh.commands.drain import NotDrained
    from mesh.commands.drain import drain as drain_pool
    from mesh.commands.status import StatusUnavailable

    try:
        address, known = find_admin_address(file, url, token)
        drain_pool(
            address,
            known,
            trust,
            group=group,
            virtual_cluster=virtual_cluster,
            grace=grace,
            cancel=cancel,
            timeout=timeout,
            report=echo,
        )
    except (StatusUnavailable, NotDrained) as problem:
        exit_with_problem(problem)


def reload(
    file: MeshFile = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for the end of the change.")] = 120.0,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    """Apply the configuration file again: all of it, or nothing."""
    from mesh.commands.reload import NotReloaded
    from mesh.commands.reload import reload as reload_mesh
    from mesh.commands.status import StatusUnavailable

    try:
        reload_mesh(*find_admin_address(file, url, token), trust, timeout, echo)
    except NotReloaded as refused:
        exit_with_mistakes(refused.file, refused.problems)
    except StatusUnavailable as problem:
        exit_with_problem(problem)
