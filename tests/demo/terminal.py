"""A terminal for the live demo: it reads the screen and presses keys."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

PATIENCE = 90.0
"""Seconds until a text must be on the screen."""


class Terminal:
    """`kafka-mesh demo` in a terminal of 40 lines, with `folder` for its temporary files; killed at the end."""

    def __init__(self, folder: Path, *options: str, columns: int = 130) -> None:
        self._screen = pyte.Screen(columns, 40)
        self._stream = pyte.ByteStream(self._screen)
        self._master, self._slave = os.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self._before = termios.tcgetattr(self._slave)
        unset = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
        inherited = {name: value for name, value in os.environ.items() if name not in unset}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mesh.cli", "demo", *options],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**inherited, "TERM": "xterm-256color", "TMPDIR": str(folder)},
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    @property
    def text(self) -> str:
        """The text on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def is_restored(self) -> bool:
        """True if its settings are as before."""
        return termios.tcgetattr(self._slave) == self._before

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def row(self, name: str) -> list[str]:
        """The words of the line of a member, from its name on; empty if there is none."""
        for line in self.text.splitlines():
            words = line.replace("▸", " ").split()
            if words[1:2] == [name] and words[0].isdecimal():
                return words[1:]
        return []

    def wait_for(self, *alternatives: str) -> None:
        """Waits until one of these is on the screen; the process may have ended by then."""
        deadline = time.monotonic() + PATIENCE
        while not any(each in self.text for each in alternatives):
            assert time.monotonic() < deadline, f"none of {alternatives} came:\n{self.text}"
            assert self._read(0.2) or self.process.poll() is None, f"it ended without {alternatives}:\n{self.text}"

    def wait_for_match(self, pattern: str) -> re.Match[str]:
        """Waits until this is on the screen; any single look may find it half drawn."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self.text)) is None:
            assert time.monotonic() < deadline, f"nothing like {pattern} came:\n{self.text}"
            assert self._read(0.2) or self.process.poll() is None, f"it ended without {pattern}:\n{self.text}"
        return found

    def wait_for_share(self, name: str) -> None:
        """Waits until a member has a row that shows recent records."""
        deadline = time.monotonic() + PATIENCE
        while not any(word.endswith("%") and word != "0%" for word in self.row(name)):
            assert time.monotonic() < deadline, f"{name} gets no share:\n{self.text}"
            self._read(0.2)

    def outcome(self) -> int:
        """The exit code, after all output was read."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end:\n{self.text}"
            self._read(0.2)
        while self._read(0.0):
            pass
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        """Reads for up to this many seconds; returns whether something came."""
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        self._stream.feed(os.read(self._master, 65_536))
        return True
