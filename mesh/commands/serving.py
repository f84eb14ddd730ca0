"""`run`, `check`, `demo` and `credential`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.commands.shared import WRONG_USAGE, File, configuration_of, give_up, refuse

if TYPE_CHECKING:
    from mesh.config import ConfigurationError, Mistake


def run(file: File) -> None:
    """Serve until SIGTERM or SIGINT."""
    config = configuration_of(file)
    from mesh.app import run as serve
    from mesh.config import ConfigurationError

    code = 0
    mistakes: list[Mistake] = []
    try:
        code = serve(config, file.absolute())
    except* ConfigurationError as group:
        # That an address is taken is found out only by listening on it.
        mistakes = [mistake for error in _leaves(group) for mistake in error.mistakes]
    if mistakes:
        refuse(file, mistakes)
    raise typer.Exit(code)


def check(
    file: File,
    apis: Annotated[
        bool,
        typer.Option("--apis", help="Print what each virtual cluster serves and why not more; asks relays' clusters."),
    ] = False,
) -> None:
    """Print the configuration as it was understood, without secrets; or every mistake in it."""
    import yaml

    from mesh.config.interceptors_shown import interceptors_of
    from mesh.config.warnings import warnings_of

    config = configuration_of(file)
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
            give_up(problem)
        return
    text = yaml.safe_dump(config.redacted(), sort_keys=False, allow_unicode=True)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.syntax import Syntax

        Console().print(Syntax(text, "yaml", background_color="default"))
    else:
        typer.echo(text, nl=False)


def demo(
    duration: Annotated[float | None, typer.Option(min=1, help="End by itself after so many seconds; plain.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="A line a second, as where there is no terminal.")] = False,
) -> None:
    """Show the main job on embedded clusters: a load, the mesh, and three consumers that share it. In a terminal
    keys add, freeze and kill consumers."""
    from mesh.demo.main import run as run_demo

    raise typer.Exit(run_demo(duration=duration, plain=plain))


def credential(
    name: Annotated[str, typer.Argument(metavar="USER", help="The user name.")],
    iterations: Annotated[int, typer.Option(min=4096, max=1_000_000, help="What each guess costs.")] = 8192,
) -> None:
    """Print what to put under `users` for a password, which is asked for or read from standard input."""
    import secrets

    import yaml

    from mesh.security.scram import ScramCredential, ScramHash

    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        typer.echo("kafka-mesh: the password is empty", err=True)
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
