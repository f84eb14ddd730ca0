"""`pipeline`: jobs for Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from mesh.commands.shared import WRONG_USAGE, give_up

pipeline = typer.Typer(help="Jobs for Spark that read the mesh.", no_args_is_help=True)


@pipeline.command()
def landing(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to land and where, a YAML file.")],
    available_now: Annotated[bool, typer.Option("--available-now", help="Land what is there, then end.")] = False,
) -> None:
    """Everything that comes goes into one Parquet table, each record once."""
    from mesh.pipelines.landing import WrongLanding, load, run

    try:
        config = load(file)
    except WrongLanding as problem:
        _refuse_job(file, problem)
    _needs_spark()
    run(config, available_now)


@pipeline.command()
def audit(file: Annotated[Path, typer.Argument(metavar="FILE", help="What to audit, a YAML file.")]) -> None:
    """Prove from the journal that everything was delivered, landed and acknowledged; exit code 1 if it was not."""
    _needs_spark()
    from mesh.pipelines.audit.audit import run
    from mesh.pipelines.audit.job import WrongAudit, load
    from mesh.pipelines.audit.kafka import Unreadable

    try:
        verdict = run(load(file))
    except WrongAudit as problem:
        _refuse_job(file, problem)
    except Unreadable as problem:
        give_up(problem)
    for line in verdict.lines():
        typer.echo(line)
    raise typer.Exit(0 if verdict.holds else 1)


@pipeline.command()
def report(file: Annotated[Path, typer.Argument(metavar="FILE", help="That of the audit, a YAML file.")]) -> None:
    """How late and how evenly everything was delivered, and who is slow or stuck: tables, and a page to look at."""
    _needs_spark()
    from mesh.pipelines.audit.job import WrongAudit, load
    from mesh.pipelines.audit.kafka import Unreadable
    from mesh.pipelines.report.report import run

    try:
        made = run(load(file))
    except WrongAudit as problem:
        _refuse_job(file, problem)
    except Unreadable as problem:
        give_up(problem)
    for line in made.lines():
        typer.echo(line)


def _needs_spark() -> None:
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        typer.echo("kafka-mesh: Spark is not installed here: pip install 'kafka-mesh[spark]'", err=True)
        raise typer.Exit(WRONG_USAGE)


def _refuse_job(file: Path, problem: Exception) -> NoReturn:
    for line in str(problem).splitlines():
        typer.echo(f"kafka-mesh: {file}: {line}", err=True)
    raise typer.Exit(WRONG_USAGE) from None
