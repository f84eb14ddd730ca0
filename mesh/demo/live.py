"""The demo for people: a live screen, and keys that add, freeze and kill consumers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live as LiveDisplay

from mesh.demo.display.keys import Keyboard
from mesh.demo.display.plain import DRAIN_TIMEOUT, PATIENCE, introduction, say
from mesh.demo.display.screen import screen
from mesh.demo.display.show import Show
from mesh.demo.processes.judge import JudgeVerdict
from mesh.demo.processes.signals import StopRequest
from mesh.demo.stage import CLUSTERS, MEMBERS, Stage

SESSION = 6.0
"""Seconds that a frozen consumer stays in the group, instead of the usual 45: people do not wait that long."""
_LOOK = 0.5
_FRAME = 0.1


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome of the live demo. disturbed: whether consumers were killed or frozen. given_away: the number of
    records that other consumers got."""

    verdict: JudgeVerdict
    disturbed: bool
    given_away: int

    @property
    def is_well(self) -> bool:
        """Returns whether nothing was lost or altered, and nothing came again without a reason."""
        verdict = self.verdict
        return (
            verdict.fed > 0
            and not (verdict.altered or verdict.unknown)
            and (not verdict.repeated or self.disturbed or self.given_away > 0)
            and (not verdict.missing or self.given_away > 0)
        )

    def lines(self) -> Iterator[str]:
        """Yields the verdict as lines for people."""
        verdict = self.verdict
        if verdict.exactly_once or not self.is_well:
            yield from verdict.lines()
            return
        yield f"{verdict.fed:,} records fed, {verdict.delivered:,} delivered"
        if verdict.missing:
            yield f"{len(verdict.missing):,} went to consumers of your own, which were given {self.given_away:,}"
        else:
            yield "every record was delivered, unaltered"
        if verdict.repeated:
            yield f"{len(verdict.repeated):,} came again: their members were killed or frozen before a commit"


class Live:
    """The live demo: feeds, shows, and acts on keys."""

    def __init__(self, stage: Stage, stop: StopRequest) -> None:
        self._stage = stage
        self._stop = stop
        self._console = Console()
        self._next_look = 0.0

    def run(self, rate: float) -> Ending:
        """Starts everything, feeds until a stop, drains, stops everything, and judges."""
        say(f"starting the clusters {' and '.join(CLUSTERS)}, the mesh and {len(MEMBERS)} consumers")
        self._stage.start(rate)
        say(*introduction(self._stage, rate, None))
        show = Show(self._stage)
        with Keyboard() as keyboard, LiveDisplay(console=self._console, screen=True, auto_refresh=False) as display:
            while self._frame(show, display) and all([show.press(press) for press in keyboard.pressed()]):
                pass
            show.note = "the members take the remaining records"
            show.end()
            self._stage.stop_feeding()
            self._drain(show, display)
        say(*show.log())
        self._stage.stop()
        return Ending(self._stage.judge(), show.disturbed, show.given_away)

    def _frame(self, show: Show, display: LiveDisplay) -> bool:
        """Draws one frame and waits. Returns False if a stop was requested."""
        self._stage.check()
        if time.monotonic() >= self._next_look:
            show.look()
            self._next_look = time.monotonic() + _LOOK
        display.update(screen(show.scene(), self._console.height), refresh=True)
        return not self._stop.wait(_FRAME)

    def _drain(self, show: Show, display: LiveDisplay) -> None:
        """Waits until everything is delivered, until nothing has come for `PATIENCE` seconds, or for `DRAIN_TIMEOUT`
        seconds."""
        started = progress = time.monotonic()
        delivered = -1
        while (now := time.monotonic()) < min(progress + PATIENCE, started + DRAIN_TIMEOUT):
            self._frame(show, display)
            time.sleep(_FRAME)  # after a request to stop, `_frame` does not wait
            count = sum(self._stage.received().values())
            if count > delivered:
                delivered, progress = count, now
            if count >= self._stage.fed.count() and not self._stage.judge().missing:
                return
