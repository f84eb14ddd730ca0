"""`dlq`: commands for dead letters."""

from __future__ import annotations

from typing import Annotated

import typer

from mesh.commands.shared import File, configuration_of, exit_with_problem

dlq = typer.Typer(help="List, show and redrive dead letters.", no_args_is_help=True)
ClusterOption = Annotated[str | None, typer.Option("--cluster", help="Only this upstream cluster.")]
TopicOption = Annotated[str | None, typer.Option("--topic", help="Only records of this upstream topic.")]
GroupOption = Annotated[str | None, typer.Option("--group", help="Only records that this group gave up.")]
MemberOption = Annotated[str | None, typer.Option("--member", help="Only records that this member had last.")]


@dlq.command("list")
def list_dead_letters(
    file: File,
    cluster: ClusterOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    member: MemberOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON for each.")] = False,
) -> None:
    """List dead letters that were not redriven."""
    from mesh.commands.dead_letter_store import LetterFilter, LettersUnavailable
    from mesh.commands.dead_letter_views import list_letters

    try:
        list_letters(
            configuration_of(file), LetterFilter(cluster=cluster, topic=topic, group=group, member=member), as_json
        )
    except LettersUnavailable as problem:
        exit_with_problem(problem)


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
        exit_with_problem(problem)


@dlq.command("redrive")
def redrive_dead_letters(
    file: File,
    cluster: ClusterOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    member: MemberOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the records that would be redriven, and do nothing.")
    ] = False,
) -> None:
    """Produce dead letters to the topics they came from, once each; safe to interrupt and to repeat."""
    from mesh.commands.dead_letter_store import LetterFilter, LettersUnavailable
    from mesh.commands.dead_letter_views import redrive_letters

    try:
        redrive_letters(
            configuration_of(file), LetterFilter(cluster=cluster, topic=topic, group=group, member=member), dry_run
        )
    except LettersUnavailable as problem:
        exit_with_problem(problem)
