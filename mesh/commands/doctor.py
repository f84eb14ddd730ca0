"""`kafka-mesh doctor`: checks everything around a mesh before it goes live, or when something is wrong."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mesh.commands.shared import (
    File,
    configuration_of,
)
from mesh.commands.terminal import plain


def doctor(
    file: File,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check the clusters, topics, permissions, groups and certificates of a configuration, from here.

    Exit code 1 if there is a problem. Nothing is changed; a mesh need not run.
    """
    import json
    from dataclasses import asdict

    from rich.console import Console

    from mesh.commands.findings import Level, examine, several
    from mesh.telemetry.logs import configure_logs

    configure_logs("error", "auto", sys.stderr)  # this command prints problems itself
    config = configuration_of(file)
    colours = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    found = []
    for finding in examine(config):
        found.append(finding)
        if as_json:
            continue
        console.print(f"[{colours[finding.level]}]{finding.level.value}[/]", plain(f"{finding.about}: {finding.found}"))
        if finding.remedy:
            console.print(plain(f"  {finding.remedy}"))
    problems = sum(each.level is Level.PROBLEM for each in found)
    if as_json:
        typer.echo(json.dumps([{**asdict(each), "level": each.level.value} for each in found], indent=2))
    else:
        warnings = sum(each.level is Level.WARNING for each in found)
        console.print(f"{several(problems, 'problem')}, {several(warnings, 'warning')}")
    raise typer.Exit(1 if problems else 0)
