"""The command line of `kafka-mesh replay`, for typer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from mesh.commands.record_actions import DryRun, Group, VirtualCluster, place_of, refuse_usage
from mesh.commands.shared import (
    AdminToken,
    AdminUrl,
    MeshFile,
    Trust,
    exit_with_problem,
    find_admin_address,
)
from mesh.commands.terminal import echo, echo_answer

WRONG_ARGUMENT: Final = 400
"""The HTTP status for a mistake of the user."""


class _StartsByItself(TyperGroup):
    """A group of commands with `start` as default: `replay --group ...` is `replay start --group ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["start", *args]
        return super().parse_args(ctx, args)


replay = typer.Typer(
    cls=_StartsByItself,
    no_args_is_help=True,
    help="Deliver acknowledged records of a group again, while it goes on.",
)
Id = Annotated[str, typer.Option("--replay", help="The id of the replay, from `replay` or `replay list`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the JSON of /replays.")]


@replay.command(help="Begin a replay (the default command).")
def start(
    group: Group,
    file: MeshFile = None,
    begin: Annotated[
        str | None, typer.Option("--from", help="Begin of the records: 2026-11-26T10:00:00Z, or 2h for two hours ago.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="End of the records; default: now.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; repeat for several. Default: all.")] = None,
    partition: Annotated[
        str | None, typer.Option(help="CLUSTER/TOPIC-NUMBER@FIRST-LAST of the upstream log, instead of times.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: only records with this header; repeat: with all of them.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Only records with this key.")] = None,
    rate: Annotated[str | None, typer.Option(help="Records a second; default: as fast as members take them.")] = None,
    to_group: Annotated[str | None, typer.Option(help="Deliver to the members of this group instead.")] = None,
    name: Annotated[str | None, typer.Option("--replay", help="Name of the replay; default: a generated one.")] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    virtual_cluster: VirtualCluster = None,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    from mesh.commands.replays import format_started

    asked: dict[str, object] = {"group": group, "virtual_cluster": virtual_cluster, "from": begin, "to": end}
    asked |= {"topic": topic, "header": header, "key": key, "rate": rate, "to_group": to_group, "replay": name}
    asked["dry_run"] = "true" if dry_run else "false"
    if partition is not None:
        asked |= place_of(partition, may_be_many=True)
    found = _asked(find_admin_address(file, url, token), trust, asked, "POST")
    echo_answer(found, as_json, format_started)


@replay.command("list", help="List the unfinished replays of this process.")
def list_replays(
    file: MeshFile = None,
    group: Annotated[str | None, typer.Option(help="Only this group.")] = None,
    as_json: AsJson = False,
    virtual_cluster: VirtualCluster = None,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    from mesh.commands.replays import format_list

    found = _asked(find_admin_address(file, url, token), trust, {"group": group, "virtual_cluster": virtual_cluster})
    echo_answer(found, as_json, format_list)


@replay.command(help="Show the progress of a replay, by partition.")
def status(
    id: Id,
    file: MeshFile = None,
    as_json: AsJson = False,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    from mesh.commands.replays import format_details

    found = _asked(find_admin_address(file, url, token), trust, {})
    shown = [each for each in found["replays"] if each["replay"] == id]
    if not shown:
        exit_with_problem(LookupError(f"--replay: {id!r}: no unfinished replay of this process has this id"))
    for each in shown:
        echo_answer(each, as_json, format_details)


@replay.command(help="Stop a replay. Members may still acknowledge the records that they have.")
def cancel(
    id: Id,
    group: Group,
    file: MeshFile = None,
    virtual_cluster: VirtualCluster = None,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    from mesh.commands.replays import format_cancelled

    asked = {"group": group, "virtual_cluster": virtual_cluster, "replay": id}
    echo(format_cancelled(_asked(find_admin_address(file, url, token), trust, asked, "DELETE")))


def _asked(
    address: tuple[str, str | None], trust: Trust, asked: Mapping[str, object], method: str = "GET"
) -> Mapping[str, Any]:
    from mesh.commands.replays import request
    from mesh.commands.status import RefusedByMesh, StatusUnavailable

    try:
        return request(*address, trust, asked, method)
    except StatusUnavailable as problem:
        if isinstance(problem, RefusedByMesh) and problem.code == WRONG_ARGUMENT:
            refuse_usage(f"--{problem}")
        exit_with_problem(problem)
