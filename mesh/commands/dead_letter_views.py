"""The command line of `mesh.commands.dead_letter_store`: list, show, redrive."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from mesh.commands.dead_letter_store import (
    BUNDLE,
    DeadLetterTopics,
    Letter,
    LetterFilter,
    LettersUnavailable,
    dead_letter_topics,
)
from mesh.commands.terminal import plain, printable
from mesh.config import Config

COLUMNS = ("letter", "from", "group", "deliveries", "member", "reason", "given up")


def list_letters(config: Config, wanted: LetterFilter, as_json: bool) -> None:
    """Prints dead letters as a table or as JSON. Raises LettersUnavailable."""
    found = list(_wanted(config, wanted))
    if as_json:
        for letter in found:
            typer.echo(json.dumps(letter.as_json()))
        return
    table = Table(*COLUMNS, title=f"{len(found)} dead letters not redriven", title_justify="left")
    for letter in found:
        about = letter.about
        came_from = f"{about.get('topic', '?')}-{about.get('partition', '?')}@{about.get('offset', '?')}"
        seen = [about.get(name, "?") for name in ("group", "deliveries", "member", "reason")]
        table.add_row(*map(plain, (letter.name, came_from, *seen, _time(about.get("time", "")))))
    Console().print(table)


def show_letter(config: Config, name: str) -> None:
    """Prints one dead letter. name: CLUSTER/TOPIC-PARTITION@OFFSET, as `list` prints it. Raises LettersUnavailable."""
    letter = next((each for each in _wanted(config, LetterFilter()) if each.name == name), None)
    if letter is None:
        raise LettersUnavailable(f"no dead letter {name}, or it was redriven already")
    console = Console()
    for key, value in letter.about.items():
        console.print(printable(f"{key}: {value}"), markup=False, highlight=False)
    console.print(printable(f"timestamp: {_time(str(letter.timestamp))}"), markup=False, highlight=False)
    for header, content in letter.headers:
        console.print(printable(f"header {header}: {content!r}"), markup=False, highlight=False)
    console.print(printable(f"key: {letter.key!r}"), markup=False, highlight=False)
    console.print(printable(f"value: {letter.value!r}"), markup=False, highlight=False)


def redrive_letters(config: Config, wanted: LetterFilter, dry_run: bool) -> None:
    """Redrives dead letters; with `dry_run` it only lists them. Raises LettersUnavailable."""
    if dry_run:
        list_letters(config, wanted, as_json=False)
        return
    console, count, unreadable = Console(stderr=True), 0, 0
    for topics in dead_letter_topics(config, wanted.cluster):
        found = _of(topics, wanted)
        unreadable += sum(not letter.is_readable for letter in found)
        if not any(letter.is_readable for letter in found):
            continue
        producer = topics.producer()
        ledgers = topics.ledgers()
        # Another redrive may have settled some of these letters before this one fenced it.
        letters = [each for each in found if each.is_readable and not ledgers[each.place].is_settled(each.offset)]
        with Progress(console=console) as progress:
            task = progress.add_task(topics.cluster.name, total=len(letters))
            for place, group in itertools.groupby(letters, key=lambda letter: letter.place):
                for bundle in _bundles(list(group)):
                    topics.redrive(bundle, ledgers[place], producer)
                    progress.advance(task, len(bundle))
                    count += len(bundle)
    typer.echo(f"{count} records redriven")
    if unreadable:
        typer.echo(f"{unreadable} letters left: damaged batches without records to redrive", err=True)


def _bundles(letters: list[Letter]) -> Iterator[list[Letter]]:
    for begin in range(0, len(letters), BUNDLE):
        yield letters[begin : begin + BUNDLE]


def _wanted(config: Config, wanted: LetterFilter) -> Iterator[Letter]:
    for topics in dead_letter_topics(config, wanted.cluster):
        yield from _of(topics, wanted)


def _of(topics: DeadLetterTopics, wanted: LetterFilter) -> list[Letter]:
    return [
        letter for place, ledger in topics.ledgers().items() for letter in topics.read(place, ledger) if wanted(letter)
    ]


def _time(milliseconds: str) -> str:
    if not milliseconds.isdigit():
        return "?"
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
