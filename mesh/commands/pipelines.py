"""`pipeline`: commands for Spark jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from mesh.commands.shared import WRONG_USAGE, exit_with_problem

pipeline = typer.Typer(help="Run Spark jobs: landing, audit, report.", no_args_is_help=True)


@pipeline.command()
def landing(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The landing job, a YAML file.")],
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Land the available records, then end.")
    ] = False,
) -> None:
    """Land everything that comes in one table, each record once."""
    from mesh.pipelines.continuing import OtherCheckpoint
    from mesh.pipelines.landing import WrongLanding, load, run

    try:
        config = load(file)
    except WrongLanding as problem:
        _refuse_job(file, problem)
    _needs_spark()
    try:
        run(config, available_now)
    except OtherCheckpoint as problem:
        _refuse_job(file, problem)


@pipeline.command()
def audit(file: Annotated[Path, typer.Argument(metavar="FILE", help="The audit job, a YAML file.")]) -> None:
    """Prove from the journal that everything was delivered, landed and acknowledged; exit code 1 if it was not."""
    _needs_spark()
    from mesh.pipelines.audit.audit import run
    from mesh.pipelines.audit.job import WrongAudit, load
    from mesh.pipelines.audit.kafka import UnreadableCluster

    try:
        verdict = run(load(file))
    except WrongAudit as problem:
        _refuse_job(file, problem)
    except UnreadableCluster as problem:
        exit_with_problem(problem)
    for line in verdict.lines():
        typer.echo(line)
    raise typer.Exit(0 if verdict.holds else 1)


@pipeline.command()
def report(file: Annotated[Path, typer.Argument(metavar="FILE", help="The audit job, a YAML file.")]) -> None:
    """Report how late and how evenly everything was delivered, and which members are slow or stuck: as tables and a
    page."""
    _needs_spark()
    from mesh.pipelines.audit.job import WrongAudit, load
    from mesh.pipelines.audit.kafka import UnreadableCluster
    from mesh.pipelines.report.report import run

    try:
        made = run(load(file))
    except WrongAudit as problem:
        _refuse_job(file, problem)
    except UnreadableCluster as problem:
        exit_with_problem(problem)
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
