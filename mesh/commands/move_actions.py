"""The command line of `kafka-mesh move`, for typer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mesh.commands.record_actions import DryRun, VirtualCluster, refuse_usage
from mesh.commands.shared import (
    AdminToken,
    AdminUrl,
    MeshFile,
    Trust,
    exit_with_problem,
    find_admin_address,
)
from mesh.commands.terminal import echo, echo_answer

WRONG_ARGUMENT = 400
"""The HTTP status for a mistake of the user."""
move = typer.Typer(
    no_args_is_help=True, help="Move a topic of a router to another of its clusters, while clients write and read it."
)
Topic = Annotated[str, typer.Option(help="The topic, as clients call it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the JSON of /moves.")]


@move.command(help="Copy a topic to another cluster, and lead its clients there.")
def start(
    topic: Topic,
    file: MeshFile = None,
    to: Annotated[str | None, typer.Option(help="The route to the cluster, as in us or regions/us.")] = None,
    back: Annotated[bool, typer.Option("--back", help="Move it to its previous cluster instead.")] = False,
    replication_factor: Annotated[
        str | None, typer.Option(help="Replication factor of the topic there; default: that cluster's.")
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    virtual_cluster: VirtualCluster = None,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    from mesh.commands.moves import format_started

    asked: dict[str, object] = {"topic": topic, "to": to, "virtual_cluster": virtual_cluster}
    asked |= {"replication_factor": replication_factor, "back": "true" if back else None}
    asked["dry_run"] = "true" if dry_run else "false"
    found = _asked(find_admin_address(file, url, token), trust, asked, "POST")
    echo_answer(found, as_json, format_started)


@move.command("list", help="Show topics that are or were moved, and their progress.")
def list_moves(
    file: MeshFile = None,
    as_json: AsJson = False,
    virtual_cluster: VirtualCluster = None,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    from mesh.commands.moves import format_list

    found = _asked(find_admin_address(file, url, token), trust, {"virtual_cluster": virtual_cluster})
    echo_answer(found, as_json, format_list)


@move.command(help="Leave a topic at its cluster. The copy of a first move is deleted.")
def cancel(
    topic: Topic,
    file: MeshFile = None,
    virtual_cluster: VirtualCluster = None,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    from mesh.commands.moves import format_cancelled

    asked = {"topic": topic, "virtual_cluster": virtual_cluster}
    echo(format_cancelled(_asked(find_admin_address(file, url, token), trust, asked, "DELETE")))


def _asked(
    address: tuple[str, str | None], trust: Trust, asked: Mapping[str, object], method: str = "GET"
) -> Mapping[str, Any]:
    from mesh.commands.moves import request
    from mesh.commands.status import RefusedByMesh, StatusUnavailable

    try:
        return request(*address, trust, asked, method)
    except StatusUnavailable as problem:
        if isinstance(problem, RefusedByMesh) and problem.code == WRONG_ARGUMENT:
            refuse_usage(f"--{problem}")
        exit_with_problem(problem)
