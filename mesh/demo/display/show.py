"""The live demo without its terminal: keys go in, a scene comes out."""

from __future__ import annotations

import itertools
import time

from mesh.demo.display.keys import KeyPress, Press
from mesh.demo.display.plain import attaching
from mesh.demo.display.rows import MemberRow, Recent, member_rows
from mesh.demo.display.screen import Scene
from mesh.demo.display.story import Story
from mesh.demo.processes.seen import Seen, SeenMember
from mesh.demo.stage import GROUP, MEMBERS, Stage, StageState


class Show:
    """What is seen of a stage, and what is done to it.

    disturbed: whether a consumer was killed or frozen, so that records may come again.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._begin = time.monotonic()
        self._recent = Recent()
        self._given: dict[str, int] = {}
        self._chosen: str | None = next(iter(stage.actors), None)
        self._numbers = itertools.count(sum(1 for name in MEMBERS if name.startswith("fast")) + 1)
        self.story = Story(self._name_of)
        self.note = ""
        self.disturbed = False

    @property
    def latest(self) -> Seen | None:
        """What the mesh said last."""
        return self._recent.latest

    @property
    def given_away(self) -> int:
        """Records that consumers of the group were given that are not the demo's."""
        return sum(self._given.values())

    def look(self) -> None:
        """Ask the mesh once more. What it cannot be asked, is shown as it was."""
        seen = self._stage.endpoint.seen()
        if seen is not None:
            self.saw(seen)

    def saw(self, seen: Seen) -> None:
        """What the mesh says now."""
        self._recent.add(seen)
        self.story.saw(seen)
        for member in seen.members:
            if member.group == GROUP and member.client_id not in self._stage.actors:
                self._given[member.id] = member.delivered

    def press(self, press: Press) -> bool:
        """Do what a key says; False for the one that ends it."""
        match press:
            case KeyPress.QUIT:
                return False
            case KeyPress.ADD:
                self.add()
            case KeyPress.UP | KeyPress.DOWN:
                self._move(-1 if press is KeyPress.UP else 1)
            case int():
                self._choose(press)
            case KeyPress.FREEZE | KeyPress.THAW | KeyPress.KILL:
                self._act(press)
        return True

    def add(self) -> None:
        """One fast consumer more."""
        name = f"fast-{next(self._numbers)}"
        self._stage.add(name, 0.0)
        self._chosen = name
        self._tell(f"{name} was started")

    def end(self) -> None:
        """Nobody stands still any more, and somebody is there to take the rest."""
        for name, actor in self._stage.actors.items():
            if actor.standing is StageState.FROZEN:
                self._stage.thaw(name)
                self._tell(f"{name} goes on")
        if not self._stage.living:
            self.add()

    def scene(self) -> Scene:
        """What there is to show now."""
        return Scene(
            seconds=time.monotonic() - self._begin,
            address=self._stage.endpoint.bootstrap_servers,
            fed=self._stage.fed.count(),
            members=self._rows(),
            topics=self._recent.topics(),
            events=list(self.story.events),
            begin=self._begin,
            chosen=self._chosen,
            attaching=attaching(self._stage.endpoint.bootstrap_servers, GROUP),
            note=self.note,
        )

    def log(self) -> list[str]:
        """What happened, as lines."""
        return [f"{event.at - self._begin:6.1f} s  {event.text}" for event in self.story.events]

    # Keys

    def _act(self, key: KeyPress) -> None:
        name = self._chosen
        if name is None or (actor := self._stage.actors[name]).standing is StageState.KILLED:
            self._tell("choose a consumer first: with its number, or up and down")
            return
        match key, actor.standing:
            case KeyPress.FREEZE, StageState.RUNNING:
                self._stage.freeze(name)
                self._fell(name, "frozen (SIGSTOP)")
            case KeyPress.THAW, StageState.FROZEN:
                self._stage.thaw(name)
                self._tell(f"{name} goes on (SIGCONT); what others were given meanwhile is not its own any more")
            case KeyPress.KILL, _:
                self._stage.kill(name)
                self._fell(name, "killed (kill -9)")
                self._choose_another()
            case _:
                self._tell(f"{name} is {actor.standing.value} already")

    def _fell(self, name: str, how: str) -> None:
        self.disturbed = True
        self.look()
        self._tell(f"{name} was {how}, with {self._held(name):,} records that it had not committed")

    def _choose_another(self) -> None:
        self._chosen = next(iter(self._stage.living), None)

    def _choose(self, number: int) -> None:
        rows = self._rows()
        if 1 <= number <= len(rows):
            row = rows[number - 1]
            if row.standing is None:
                self._tell(f"{row.name} is your own: stop it where you have started it")
            else:
                self._chosen = row.name

    def _move(self, step: int) -> None:
        names = list(dict.fromkeys(row.name for row in self._rows() if row.standing is not None))
        if names:
            place = names.index(self._chosen) if self._chosen in names else 0
            self._chosen = names[(place + step) % len(names)]

    def _rows(self) -> list[MemberRow]:
        return member_rows(self._recent, {name: actor.standing for name, actor in self._stage.actors.items()})

    def _held(self, name: str) -> int:
        seen = self._recent.latest
        return sum(member.held for member in seen.members if member.client_id == name) if seen is not None else 0

    def _name_of(self, member: SeenMember) -> str:
        return member.client_id if member.client_id in self._stage.actors else f"your {member.client_id}"

    def _tell(self, text: str) -> None:
        self.story.tell(time.monotonic(), text)
