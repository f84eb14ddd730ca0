"""The command `kafka-mesh`."""

from __future__ import annotations

from typing import Annotated

import typer

from mesh.commands.dlq import dlq
from mesh.commands.doctor import doctor
from mesh.commands.move_actions import move
from mesh.commands.operating import drain, reload, status
from mesh.commands.pipelines import pipeline
from mesh.commands.record_actions import bury, look, release, settle
from mesh.commands.replay_actions import replay
from mesh.commands.serving import check, credential, demo, run

# Tracebacks would show local variables, and with them the secrets of a configuration.
app = typer.Typer(
    help="A Kafka proxy that puts several Kafka clusters behind one address.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (run, check, doctor, demo, credential, status, drain, reload, look, settle, bury, release):
    app.command(help=command.__doc__)(command)
app.add_typer(pipeline, name="pipeline")
app.add_typer(dlq, name="dlq")
app.add_typer(replay, name="replay")
app.add_typer(move, name="move")


def main() -> None:
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"kafka-mesh {version('kafka-mesh')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None: ...


if __name__ == "__main__":
    main()
