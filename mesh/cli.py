"""The command `kafka-mesh`. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from mesh.config import Config, ConfigurationError, Mistake

WRONG_USAGE = 2
"""Exit code for what its user can put right: options, and mistakes in the configuration."""

# Tracebacks would show local variables, and with them the secrets of a configuration.
app = typer.Typer(
    help="One native-Kafka address in front of several Kafka clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
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


@app.command()
def run(file: File) -> None:
    """Serve until SIGTERM or SIGINT."""
    config = _load(file)
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
        _refuse(file, mistakes)
    raise typer.Exit(code)


@app.command()
def check(file: File) -> None:
    """Print the configuration as it was understood, without secrets; or every mistake in it."""
    import yaml

    from mesh.config.warnings import warnings_of

    config = _load(file)
    for warning in warnings_of(config):
        typer.echo(f"kafka-mesh: {file}: warning: {warning}", err=True)
    text = yaml.safe_dump(config.redacted(), sort_keys=False, allow_unicode=True)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.syntax import Syntax

        Console().print(Syntax(text, "yaml", background_color="default"))
    else:
        typer.echo(text, nl=False)


@app.command()
def demo(
    duration: Annotated[float | None, typer.Option(min=1, help="End by itself after so many seconds; plain.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="A line a second, as where there is no terminal.")] = False,
) -> None:
    """Show the main job on embedded clusters: a load, the mesh, and three consumers that share it. In a terminal
    keys add, freeze and kill consumers."""
    from mesh.demo.main import run as run_demo

    raise typer.Exit(run_demo(duration=duration, plain=plain))


pipeline = typer.Typer(help="Jobs for Spark that read the mesh.", no_args_is_help=True)
app.add_typer(pipeline, name="pipeline")


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
    from mesh.pipelines.audit import run
    from mesh.pipelines.auditing import WrongAudit, load
    from mesh.pipelines.kafka import Unreadable

    try:
        verdict = run(load(file))
    except WrongAudit as problem:
        _refuse_job(file, problem)
    except Unreadable as problem:
        _give_up(problem)
    for line in verdict.lines():
        typer.echo(line)
    raise typer.Exit(0 if verdict.holds else 1)


@pipeline.command()
def report(file: Annotated[Path, typer.Argument(metavar="FILE", help="That of the audit, a YAML file.")]) -> None:
    """How late and how evenly everything was delivered, and who is slow or stuck: tables, and a page to look at."""
    _needs_spark()
    from mesh.pipelines.auditing import WrongAudit, load
    from mesh.pipelines.kafka import Unreadable
    from mesh.pipelines.report import run

    try:
        made = run(load(file))
    except WrongAudit as problem:
        _refuse_job(file, problem)
    except Unreadable as problem:
        _give_up(problem)
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


@app.command()
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


@app.command()
def status(
    file: MeshFile = None,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what /status answers.")] = False,
) -> None:
    """Show the pools of a running mesh: members, what each holds, and why one gets nothing."""
    import json

    from rich.console import Console

    from mesh.status import StatusUnavailable, fetch, show

    try:
        found = fetch(*_where(file, url, token), trust)
    except StatusUnavailable as problem:
        _give_up(problem)
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        show(found, Console(width=None if sys.stdout.isatty() else 200))


@app.command()
def drain(
    group: Annotated[str, typer.Option(help="The group whose pool is meant.")],
    file: MeshFile = None,
    virtual_cluster: Annotated[str | None, typer.Option(help="Which one, where there are several.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Serve that pool again.")] = False,
    grace: Annotated[float | None, typer.Option(min=0, help="Seconds to commit; else drain_grace.")] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait until it is drained.")] = 60.0,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    """Let one pool of a running mesh commit what it holds and leave its upstream groups; its members stay, and wait."""
    from mesh.drain import NotDrained
    from mesh.drain import drain as drain_pool
    from mesh.status import StatusUnavailable

    try:
        address, known = _where(file, url, token)
        drain_pool(
            address,
            known,
            trust,
            group=group,
            virtual_cluster=virtual_cluster,
            grace=grace,
            cancel=cancel,
            timeout=timeout,
            tell=typer.echo,
        )
    except (StatusUnavailable, NotDrained) as problem:
        _give_up(problem)


@app.command()
def reload(
    file: MeshFile = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait until everything has changed.")] = 120.0,
    url: AdminUrl = None,
    token: AdminToken = None,
    trust: Trust = None,
) -> None:
    """Let a running mesh read its configuration again: all of it is used, or nothing of it."""
    from mesh.reload import NotReloaded
    from mesh.reload import reload as reload_mesh
    from mesh.status import StatusUnavailable

    try:
        reload_mesh(*_where(file, url, token), trust, timeout, typer.echo)
    except NotReloaded as refused:
        _refuse(refused.file, refused.problems)
    except StatusUnavailable as problem:
        _give_up(problem)


dlq = typer.Typer(help="What pools with dead_letters have given up.", no_args_is_help=True)
app.add_typer(dlq, name="dlq")
ClusterOption = Annotated[str | None, typer.Option("--cluster", help="Only of this upstream cluster.")]
TopicOption = Annotated[str | None, typer.Option("--topic", help="Only records that came from this upstream topic.")]
GroupOption = Annotated[str | None, typer.Option("--group", help="Only what this group has given up.")]
MemberOption = Annotated[str | None, typer.Option("--member", help="Only what this member had last.")]


@dlq.command("list")
def list_dead_letters(
    file: File,
    cluster: ClusterOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    member: MemberOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each.")] = False,
) -> None:
    """List the dead letters that were not redriven."""
    from mesh.dlq import Filter, LettersUnavailable
    from mesh.dlq_commands import list_letters

    try:
        list_letters(_load(file), Filter(cluster=cluster, topic=topic, group=group, member=member), as_json)
    except LettersUnavailable as problem:
        _give_up(problem)


@dlq.command("show")
def show_dead_letter(
    file: File, letter: Annotated[str, typer.Argument(help="CLUSTER/TOPIC-PARTITION@OFFSET, as `list` prints it.")]
) -> None:
    """Show one dead letter whole."""
    from mesh.dlq import LettersUnavailable
    from mesh.dlq_commands import show_letter

    try:
        show_letter(_load(file), letter)
    except LettersUnavailable as problem:
        _give_up(problem)


@dlq.command("redrive")
def redrive_dead_letters(
    file: File,
    cluster: ClusterOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    member: MemberOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be redriven.")] = False,
) -> None:
    """Produce dead letters to the topics they came from, once each; safe to interrupt and to repeat."""
    from mesh.dlq import Filter, LettersUnavailable
    from mesh.dlq_commands import redrive_letters

    try:
        redrive_letters(_load(file), Filter(cluster=cluster, topic=topic, group=group, member=member), dry_run)
    except LettersUnavailable as problem:
        _give_up(problem)


def _give_up(problem: Exception) -> NoReturn:
    typer.echo(f"kafka-mesh: {problem}", err=True)
    raise typer.Exit(1) from None


def _where(file: Path | None, url: str | None, token: str | None) -> tuple[str, str | None]:
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
    config = _load(file)
    if config.admin is None:
        typer.echo(f"kafka-mesh: {file} has no admin address: nobody can be asked", err=True)
        raise typer.Exit(WRONG_USAGE)
    listen = config.admin.listen
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)
    scheme = "https" if config.admin.tls is not None else "http"
    named = f"[{host}]" if ":" in host else host
    return f"{scheme}://{named}:{listen.port}", config.admin.token


def _load(file: Path) -> Config:
    from mesh.config import ConfigurationError, load

    try:
        return load(file)
    except ConfigurationError as error:
        _refuse(file, error.mistakes)


def _refuse(file: Path | str, mistakes: Sequence[object]) -> NoReturn:
    count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    typer.echo(f"kafka-mesh: {count} in {file} (key: value: what is allowed)", err=True)
    for mistake in mistakes:
        typer.echo(f"  {mistake}", err=True)
    raise typer.Exit(WRONG_USAGE)


def _leaves(group: BaseExceptionGroup[ConfigurationError]) -> Iterator[ConfigurationError]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


if __name__ == "__main__":
    main()
