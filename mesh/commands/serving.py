"""`run`, `check`, `demo` and `credential`: commands that need no running mesh."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mesh.commands.shared import WRONG_USAGE, File, configuration_of, exit_with_mistakes, exit_with_problem

if TYPE_CHECKING:
    from mesh.config import ConfigurationError, Mistake

LAST_WAIT: Final = 1.0
"""Seconds that a thread has to end after the process has stopped serving."""


def run(
    file: File,
    worker: Annotated[bool, typer.Option("--worker", hidden=True, help="Read commands from standard input.")] = False,
) -> None:
    """Serve until SIGTERM or SIGINT."""
    config = configuration_of(file)
    from mesh.config import ConfigurationError

    code = 0
    mistakes: list[Mistake] = []
    try:
        if config.workers > 1 and not worker:
            from mesh.supervision.supervisor import supervise

            code = supervise(config, file.absolute())
        else:
            from mesh.app import run as serve
            from mesh.app.worker import ThisWorker

            streams = (sys.stdin, sys.stdout, sys.stderr)
            place = ThisWorker(*(each.fileno() for each in streams)) if worker else None
            code = serve(config, file.absolute(), place)
    except* ConfigurationError as group:
        # Only an attempt to listen shows that an address is taken.
        mistakes = [mistake for error in _leaves(group) for mistake in error.mistakes]
    if mistakes:
        exit_with_mistakes(file, mistakes)
    _end_in_spite_of_threads(code)
    raise typer.Exit(code)


def _end_in_spite_of_threads(code: int) -> None:
    """Ends the process if a thread hangs, such as in a file system or in code of users that a reload called. Python
    would wait for it."""
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join(LAST_WAIT)
            if thread.is_alive():
                logging.shutdown()  # writes the last entries
                sys.stdout.flush()
                os._exit(code)


def check(
    file: File,
    apis: Annotated[
        bool,
        typer.Option(
            "--apis",
            help="Show the APIs that each virtual cluster serves, and why it lacks others. Asks relays' clusters.",
        ),
    ] = False,
) -> None:
    """Check a configuration: print it as understood, without secrets, or list every mistake."""
    import yaml

    from mesh.config.interceptors_shown import interceptors_of
    from mesh.config.security_files import mistakes_in_files
    from mesh.config.warnings import warnings_of

    config = configuration_of(file)
    if mistakes := list(mistakes_in_files(config)):
        exit_with_mistakes(file, mistakes)
    for warning in warnings_of(config):
        typer.echo(f"kafka-mesh: {file}: warning: {warning}", err=True)
    for line in interceptors_of(config):
        typer.echo(f"kafka-mesh: {line}", err=True)
    if apis:
        from rich.console import Console

        from mesh.commands.served_apis import ClusterUnavailable, show
        from mesh.telemetry.logs import configure_logs

        configure_logs("error", "auto")
        try:
            show(config, Console(width=None if sys.stdout.isatty() else 200))
        except ClusterUnavailable as problem:
            exit_with_problem(problem)
        return
    text = yaml.safe_dump(config.redacted(), sort_keys=False, allow_unicode=True)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.syntax import Syntax

        Console().print(Syntax(text, "yaml", background_color="default"))
    else:
        typer.echo(text, nl=False)


def demo(
    duration: Annotated[float | None, typer.Option(min=1, help="End after this many seconds; implies --plain.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print a line a second, as without a terminal.")] = False,
) -> None:
    """Show the main job on embedded clusters: a load, the mesh and three consumers, which keys add, freeze and kill."""
    from mesh.demo.main import run as run_demo

    raise typer.Exit(run_demo(duration=duration, plain=plain))


def credential(
    name: Annotated[str, typer.Argument(metavar="USER", help="The user name.")],
    iterations: Annotated[int, typer.Option(min=4096, max=1_000_000, help="SCRAM iterations.")] = 8192,
) -> None:
    """Print an entry of `users` for a password, asked for or read from standard input."""
    import secrets

    import yaml

    from mesh.security.scram import ScramCredential, ScramHash

    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        typer.echo("kafka-mesh: empty password", err=True)
        raise typer.Exit(WRONG_USAGE)
    stored = {
        f"scram_{hash.name.lower()}": ScramCredential.of_password(
            hash, password, secrets.token_bytes(16), iterations
        ).format()
        for hash in ScramHash
    }
    typer.echo(yaml.safe_dump([{"name": name, **stored}], sort_keys=False, width=10_000), nl=False)


def _leaves(group: BaseExceptionGroup[ConfigurationError]) -> Iterator[ConfigurationError]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
