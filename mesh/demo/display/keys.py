"""The keyboard of the live demo."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from collections.abc import Iterator
from enum import Enum
from types import TracebackType
from typing import Self, TypeAlias


class KeyPress(Enum):
    ADD = "a"
    FREEZE = "f"
    THAW = "t"
    KILL = "k"
    QUIT = "q"
    UP = "\x1b[A"
    DOWN = "\x1b[B"


Press: TypeAlias = KeyPress | int
"""A key, or a digit: the number of a row."""

_PRESS = re.compile(r"\x1b[\[O][A-Z]|.", re.DOTALL)


def presses(text: str) -> Iterator[Press]:
    """Yields the keys in a text from a terminal; others are left out."""
    for sent in _PRESS.findall(text):
        if sent.isdecimal() and sent.isascii():
            yield int(sent)
            continue
        try:
            yield KeyPress(sent.lower() if len(sent) == 1 else sent.replace("\x1bO", "\x1b["))
        except ValueError:
            continue


class Keyboard:
    """The terminal on standard input, in a mode that returns every key at once and shows none. The earlier mode comes
    back at the end."""

    def __enter__(self) -> Self:
        self._input = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._input)
        tty.setcbreak(self._input)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)

    def pressed(self) -> Iterator[Press]:
        """Yields the keys pressed since the last call; it does not wait."""
        if select.select([self._input], [], [], 0.0)[0]:
            yield from presses(os.read(self._input, 1024).decode(errors="ignore"))
