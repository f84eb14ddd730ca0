"""One of several processes with the same configuration, and its link to the supervisor that starts them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import asdict, dataclass
from typing import Final

LONGEST: Final = 4_096
"""The longest message to a worker, and the longest line from it, in bytes."""
ANSWERS_AT: Final = b"kafka-mesh worker answers at port "


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders that a worker gets at its start. number: its own number, from 1. instance: the name of the whole mesh.
    token: the token of the supervisor's requests."""

    number: int
    instance: str
    token: str

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


class ThisWorker:
    """The place of this process among several."""

    def __init__(self, lifeline: int, output: int, errors: int) -> None:
        """lifeline: the descriptor of a pipe that brings the orders, and closes when the supervisor ends. output: the
        descriptor of a pipe to the supervisor. From now on this process and its children print to `errors` instead."""
        self._lifeline = lifeline
        self._to_supervisor = os.dup(output)
        os.dup2(errors, output)
        orders = Orders(**json.loads(os.read(lifeline, LONGEST)))
        self.number = orders.number
        self.instance = orders.instance
        self.token = orders.token

    def answers_at(self, port: int) -> None:
        """Tells the supervisor the loopback port of this process."""
        os.write(self._to_supervisor, b"%s%d\n" % (ANSWERS_AT, port))

    def watch_supervisor(self) -> None:
        """Stops this process in order when its supervisor has ended, for whatever reason."""
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(self._lifeline)
            os.kill(os.getpid(), signal.SIGTERM)

        loop.add_reader(self._lifeline, ended)
