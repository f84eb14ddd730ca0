"""Parts that several commands share: arguments, the configuration, and exits with a message."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from mesh.commands.terminal import echo
from mesh.files import read_stream

if TYPE_CHECKING:
    from mesh.config import Config

WRONG_USAGE = 2
"""The exit code for mistakes of the user, in options or in the configuration."""

File = Annotated[Path, typer.Argument(metavar="FILE", help="The configuration, a YAML file.")]
MeshFile = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The configuration, for its admin address.")]
AdminUrl = Annotated[str | None, typer.Option("--url", help="The admin address, e.g. http://127.0.0.1:9644.")]
AdminToken = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="KAFKA_MESH_ADMIN_TOKEN",
        help="The token, if not that of the file; better in the environment.",
    ),
]
Trust = Annotated[Path | None, typer.Option("--trust", help="Certificates (PEM) to trust beside the system's.")]


def exit_with_problem(problem: Exception) -> NoReturn:
    """Prints a problem and ends with exit code 1."""
    echo(f"kafka-mesh: {problem}", err=True)
    raise typer.Exit(1) from None


def find_admin_address(file: Path | None, url: str | None, token: str | None) -> tuple[str, str | None]:
    """Returns the admin address, from a configuration or from --url, and its token."""
    if file is not None and url is None:
        address, known = _admin_address(file)
        return address, token or known
    if url is None or file is not None:
        typer.echo("kafka-mesh: pass FILE or --url", err=True)
        raise typer.Exit(WRONG_USAGE)
    return url, token


def _admin_address(file: Path) -> tuple[str, str | None]:
    """Returns the URL of a configuration's admin address, and its token."""
    config = configuration_of(file)
    if config.admin is None:
        typer.echo(f"kafka-mesh: {file}: no admin address configured (admin.listen)", err=True)
        raise typer.Exit(WRONG_USAGE)
    listen = config.admin.listen
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)
    scheme = "https" if config.admin.tls is not None else "http"
    named = f"[{host}]" if ":" in host else host
    return f"{scheme}://{named}:{listen.port}", config.admin.token


def configuration_of(file: Path) -> Config:
    """Returns the configuration in a file. If it has mistakes, prints all of them and ends with exit code 2."""
    from mesh.config import ConfigurationError, load

    try:
        return load(file, read_bytes=read_stream)  # a command may read a pipe
    except ConfigurationError as error:
        exit_with_mistakes(file, error.mistakes)


def exit_with_mistakes(file: Path | str, mistakes: Sequence[object]) -> NoReturn:
    """Prints the mistakes, each with its key and the allowed values, and ends with exit code 2."""
    count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    typer.echo(f"kafka-mesh: {count} in {file} (key: value: what is allowed)", err=True)
    for mistake in mistakes:
        echo(f"  {mistake}", err=True)
    raise typer.Exit(WRONG_USAGE)
