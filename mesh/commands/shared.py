"""What several commands have: their arguments, the configuration, and how they end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from mesh.config import Config

WRONG_USAGE = 2
"""Exit code for what its user can put right: options, and mistakes in the configuration."""

File = Annotated[Path, typer.Argument(metavar="FILE", help="The configuration, a YAML file.")]
MeshFile = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="The configuration of that mesh, for its admin address.")
]
AdminUrl = Annotated[str | None, typer.Option("--url", help="Its admin address, e.g. http://127.0.0.1:9644.")]
AdminToken = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="KAFKA_MESH_ADMIN_TOKEN",
        help="Its token, if not that of the file; better given in the environment.",
    ),
]
Trust = Annotated[Path | None, typer.Option("--trust", help="Certificates (PEM) to trust beside the system's.")]


def give_up(problem: Exception) -> NoReturn:
    """What was asked could not be done: exit code 1."""
    typer.echo(f"kafka-mesh: {problem}", err=True)
    raise typer.Exit(1) from None


def where(file: Path | None, url: str | None, token: str | None) -> tuple[str, str | None]:
    """The admin address, by a configuration or by itself, and its token."""
    if file is not None and url is None:
        address, known = _admin_address(file)
        return address, token or known
    if url is None or file is not None:
        typer.echo("kafka-mesh: name the configuration, or the admin address with --url", err=True)
        raise typer.Exit(WRONG_USAGE)
    return url, token


def _admin_address(file: Path) -> tuple[str, str | None]:
    """The URL of a configuration's admin address, and its token."""
    config = configuration_of(file)
    if config.admin is None:
        typer.echo(f"kafka-mesh: {file} has no admin address: nobody can be asked", err=True)
        raise typer.Exit(WRONG_USAGE)
    listen = config.admin.listen
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)
    scheme = "https" if config.admin.tls is not None else "http"
    named = f"[{host}]" if ":" in host else host
    return f"{scheme}://{named}:{listen.port}", config.admin.token


def configuration_of(file: Path) -> Config:
    """Ends with all its mistakes, if it has any."""
    from mesh.config import ConfigurationError, load

    try:
        return load(file)
    except ConfigurationError as error:
        refuse(file, error.mistakes)


def refuse(file: Path | str, mistakes: Sequence[object]) -> NoReturn:
    """Each mistake names the key, and what is allowed: exit code 2."""
    count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    typer.echo(f"kafka-mesh: {count} in {file} (key: value: what is allowed)", err=True)
    for mistake in mistakes:
        typer.echo(f"  {mistake}", err=True)
    raise typer.Exit(WRONG_USAGE)
