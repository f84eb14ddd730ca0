"""The command lines of `look`, `settle`, `bury` and `release`, for typer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from mesh.commands.records import Form
from mesh.commands.shared import (
    WRONG_USAGE,
    AdminToken,
    AdminUrl,
    MeshFile,
    Trust,
    exit_with_problem,
    find_admin_address,
)
from mesh.commands.terminal import echo, echo_answer

Group = Annotated[str, typer.Option(help="The group of the pool.")]
VirtualCluster = Annotated[str | None, typer.Option(help="The virtual cluster, if there are several.")]
Partition = Annotated[str, typer.Option(help="CLUSTER/TOPIC-NUMBER@OFFSET, or @FIRST-LAST, of the upstream log.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what the command would do, and do nothing.")]
_PLACE = re.compile(r"(?P<partition>.+/.+-\d+)@(?P<offset>\d+)(-(?P<last>\d+))?")


def look(
    group: Group,
    file: MeshFile = None,
    member: Annotated[str | None, typer.Option(help="Show the record that this member has held longest.")] = None,
    partition: Annotated[str | None, typer.Option(help="CLUSTER/TOPIC-NUMBER@OFFSET of the upstream log.")] = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="Show the record held longest (default).")] = False,
    form: Annotated[Form, typer.Option("--as", help="How to print bytes.")] = Form.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON of /records.")] = False,
    virtual_cluster: VirtualCluster = None,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    """Show an unsettled record of a pool: its member, and its content."""

    from mesh.commands.records import format_record, request
    from mesh.commands.status import StatusUnavailable

    if sum((member is not None, partition is not None, oldest)) > 1:
        refuse_usage("--member, --partition, --oldest: give one of them")
    asked: dict[str, object] = {"group": group, "virtual_cluster": virtual_cluster, "member": member}
    if partition is not None:
        asked |= place_of(partition)
    try:
        found = request(*find_admin_address(file, url, token), trust, asked)
    except StatusUnavailable as problem:
        exit_with_problem(problem)
    echo_answer(found, as_json, lambda each: format_record(each, form))


def _command(action: str, meaning: str) -> Callable[..., None]:
    def command(
        group: Group,
        partition: Partition,
        file: MeshFile = None,
        dry_run: DryRun = False,
        virtual_cluster: VirtualCluster = None,
        url: AdminUrl = None,
        token: AdminToken = None,
        trust: Trust = None,
    ) -> None:
        _act(action, group, partition, dry_run, virtual_cluster, find_admin_address(file, url, token), trust)

    command.__name__, command.__doc__ = action, meaning
    return command


_LOSES = "A member that holds them loses everything it holds of their partition."
settle = _command("settle", f"Count records as processed. {_LOSES}")
bury = _command("bury", f"Write records as dead letters. {_LOSES}")
release = _command("release", f"Take records from their member; others get them first. {_LOSES}")


def _act(
    action: str,
    group: str,
    partition: str,
    dry_run: bool,
    virtual_cluster: str | None,
    address: tuple[str, str | None],
    trust: Trust,
) -> None:
    from mesh.commands.records import format_outcome, request
    from mesh.commands.status import StatusUnavailable

    asked: dict[str, object] = {"group": group, "virtual_cluster": virtual_cluster, "action": action}
    asked |= {**place_of(partition, may_be_many=True), "dry_run": "true" if dry_run else "false"}
    try:
        found = request(*address, trust, asked, "POST")
    except StatusUnavailable as problem:
        exit_with_problem(problem)
    echo(format_outcome(found))


def place_of(named: str, may_be_many: bool = False) -> dict[str, object]:
    found = _PLACE.fullmatch(named)
    if found is None or (found["last"] and not may_be_many):
        form = "CLUSTER/TOPIC-NUMBER@OFFSET" + (" or @FIRST-LAST" if may_be_many else "")
        refuse_usage(f"--partition: {named}: {form}, as in eu/orders-3@4711")
    return {key: value for key, value in found.groupdict().items() if value is not None}


def refuse_usage(message: str) -> NoReturn:
    echo(f"kafka-mesh: {message}", err=True)
    raise typer.Exit(WRONG_USAGE)
