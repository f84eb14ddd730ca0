"""The bytes of a terminal, as keys."""

from __future__ import annotations

import pytest

from mesh.demo.display.keys import KeyPress, Press, presses


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("a", [KeyPress.ADD]),
        ("K", [KeyPress.KILL]),
        ("2f", [2, KeyPress.FREEZE]),
        ("\x1b[A\x1b[B", [KeyPress.UP, KeyPress.DOWN]),
        ("\x1bOA", [KeyPress.UP]),
        ("\x1b[Cq", [KeyPress.QUIT]),
        ("x\x00é²\n", []),
        ("\x1b", []),
        ("", []),
    ],
)
def test_keys(sent: str, meant: list[Press]) -> None:
    assert list(presses(sent)) == meant
