"""`dlq`: what pools have given up."""

from __future__ import annotations

from typing import Annotated

import typer

from mesh.commands.shared import File, configuration_of, give_up

dlq = typer.Typer(help="What pools with dead_letters have given up.", no_args_is_help=True)
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
    from mesh.commands.dead_letter_store import Filter, LettersUnavailable
    from mesh.commands.dead_letter_views import list_letters

    try:
        list_letters(configuration_of(file), Filter(cluster=cluster, topic=topic, group=group, member=member), as_json)
    except LettersUnavailable as problem:
        give_up(problem)


@dlq.command("show")
def show_dead_letter(
    file: File, letter: Annotated[str, typer.Argument(help="CLUSTER/TOPIC-PARTITION@OFFSET, as `list` prints it.")]
) -> None:
    """Show one dead letter whole."""
    from mesh.commands.dead_letter_store import LettersUnavailable
    from mesh.commands.dead_letter_views import show_letter

    try:
        show_letter(configuration_of(file), letter)
    except LettersUnavailable as problem:
        give_up(problem)


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
    from mesh.commands.dead_letter_store import Filter, LettersUnavailable
    from mesh.commands.dead_letter_views import redrive_letters

    try:
        redrive_letters(
            configuration_of(file), Filter(cluster=cluster, topic=topic, group=group, member=member), dry_run
        )
    except LettersUnavailable as problem:
        give_up(problem)
