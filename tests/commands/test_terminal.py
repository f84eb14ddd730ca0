"""The output of commands, which has names that clients choose."""

from __future__ import annotations

import json
from typing import Final

import pytest

from mesh.commands.terminal import echo, echo_json

NAMES: Final = [
    "x[/y]",
    "\x1b]0;owned\x07",
    "\x9b31m",
    "a\rb\x00",
    "\u202etxt.exe",
    "\udc80",
    "\U000e0001",
    "größe",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_cannot_control_the_terminal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    echo(f"group {name}\n\tone line more")
    shown = capsys.readouterr().out
    assert all(each.isprintable() or each in "\n\t" for each in shown)
    assert shown.endswith("\n\tone line more\n")


@pytest.mark.parametrize("name", NAMES)
def test_json_has_names_as_they_are(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    echo_json({"group": name})
    shown = capsys.readouterr().out
    assert json.loads(shown) == {"group": name}
    assert all(each.isprintable() or each == "\n" for each in shown)
    assert ("größe" in shown) == (name == "größe")
