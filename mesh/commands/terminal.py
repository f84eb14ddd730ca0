"""The output of commands. Clients choose names and the contents of records, so these are escaped: they must not control
a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from rich.text import Text

_Answer = TypeVar("_Answer")


def printable(text: str) -> str:
    """Returns a text with its control characters escaped, except line ends and tabs."""
    return "".join(each if each.isprintable() or each in "\n\t" else _escaped(each) for each in text)


def plain(text: str) -> Text:
    """Returns a text that has one line and no markup for rich."""
    from rich.text import Text

    return Text("".join(each if each.isprintable() else _escaped(each) for each in text))


def echo(text: str, *, err: bool = False) -> None:
    """Prints a text that may have names of clients."""
    typer.echo(printable(text), err=err)


def echo_json(found: object) -> None:
    """Prints a value as JSON. Control characters are escaped as JSON does it."""
    text = json.dumps(found, indent=2, ensure_ascii=False)
    typer.echo("".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text))


def echo_answer(found: _Answer, as_json: bool, form: Callable[[_Answer], str]) -> None:
    """Prints an answer of the mesh as JSON, or as a text."""
    if as_json:
        echo_json(found)
    else:
        echo(form(found))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
