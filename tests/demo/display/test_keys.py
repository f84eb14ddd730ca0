"""What a terminal sends, as keys."""

from __future__ import annotations

import pytest

from mesh.demo.display.keys import Key, Press, presses


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("a", [Key.ADD]),
        ("K", [Key.KILL]),
        ("2f", [2, Key.FREEZE]),
        ("\x1b[A\x1b[B", [Key.UP, Key.DOWN]),
        ("\x1bOA", [Key.UP]),
        ("\x1b[Cq", [Key.QUIT]),
        ("x\x00é²\n", []),
        ("\x1b", []),
        ("", []),
    ],
)
def test_keys(sent: str, meant: list[Press]) -> None:
    assert list(presses(sent)) == meant
