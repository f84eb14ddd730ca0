"""The live demo without its terminal: it takes keys, and returns scenes."""

from __future__ import annotations

import itertools
import time

from mesh.demo.display.keys import KeyPress, Press
from mesh.demo.display.plain import attaching
from mesh.demo.display.rows import MemberRow, Recent, member_rows
from mesh.demo.display.screen import Scene
from mesh.demo.display.story import Story
from mesh.demo.processes.snapshot import MemberSnapshot, MeshSnapshot
from mesh.demo.stage import GROUP, MEMBERS, Stage, StageState


class Show:
    """A stage that is watched, and on which keys act.

    disturbed: whether a consumer was killed or frozen, so that records may be delivered again.
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
    def latest(self) -> MeshSnapshot | None:
        """The latest snapshot of the mesh."""
        return self._recent.latest

    @property
    def given_away(self) -> int:
        """Returns the number of records that went to consumers of the group that are not the demo's."""
        return sum(self._given.values())

    def look(self) -> None:
        """Reads the state of the mesh once more. Parts that cannot be read stay as they were."""
        snapshot = self._stage.endpoint.snapshot()
        if snapshot is not None:
            self.add_snapshot(snapshot)

    def add_snapshot(self, snapshot: MeshSnapshot) -> None:
        """Adds a new snapshot of the mesh."""
        self._recent.add(snapshot)
        self.story.add_snapshot(snapshot)
        for member in snapshot.members:
            if member.group == GROUP and member.client_id not in self._stage.actors:
                self._given[member.id] = member.delivered

    def press(self, press: Press) -> bool:
        """Carries out a key. Returns False for the key that ends the demo."""
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
        """Adds a fast consumer."""
        name = f"fast-{next(self._numbers)}"
        self._stage.add(name, 0.0)
        self._chosen = name
        self._add_event(f"{name} was started")

    def end(self) -> None:
        """Thaws all consumers, and makes sure that one is there to take the rest."""
        for name, actor in self._stage.actors.items():
            if actor.state is StageState.FROZEN:
                self._stage.thaw(name)
                self._add_event(f"{name} goes on")
        if not self._stage.living:
            self.add()

    def scene(self) -> Scene:
        """Returns the scene to show now."""
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
        """Returns the events as lines of text."""
        return [f"{event.at - self._begin:6.1f} s  {event.text}" for event in self.story.events]

    # Keys

    def _act(self, key: KeyPress) -> None:
        name = self._chosen
        if name is None or (actor := self._stage.actors[name]).state is StageState.KILLED:
            self._add_event("choose a consumer first: with its number, or up and down")
            return
        match key, actor.state:
            case KeyPress.FREEZE, StageState.RUNNING:
                self._stage.freeze(name)
                self._fell(name, "frozen (SIGSTOP)")
            case KeyPress.THAW, StageState.FROZEN:
                self._stage.thaw(name)
                self._add_event(f"{name} goes on (SIGCONT); it has lost the records that others got meanwhile")
            case KeyPress.KILL, _:
                self._stage.kill(name)
                self._fell(name, "killed (kill -9)")
                self._choose_another()
            case _:
                self._add_event(f"{name} is {actor.state.value} already")

    def _fell(self, name: str, how: str) -> None:
        self.disturbed = True
        self.look()
        self._add_event(f"{name} was {how}, with {self._held(name):,} records that it had not committed")

    def _choose_another(self) -> None:
        self._chosen = next(iter(self._stage.living), None)

    def _choose(self, number: int) -> None:
        rows = self._rows()
        if 1 <= number <= len(rows):
            row = rows[number - 1]
            if row.state is None:
                self._add_event(f"{row.name} is your own: stop it where you have started it")
            else:
                self._chosen = row.name

    def _move(self, step: int) -> None:
        names = list(dict.fromkeys(row.name for row in self._rows() if row.state is not None))
        if names:
            place = names.index(self._chosen) if self._chosen in names else 0
            self._chosen = names[(place + step) % len(names)]

    def _rows(self) -> list[MemberRow]:
        return member_rows(self._recent, {name: actor.state for name, actor in self._stage.actors.items()})

    def _held(self, name: str) -> int:
        snapshot = self._recent.latest
        return (
            sum(member.held for member in snapshot.members if member.client_id == name) if snapshot is not None else 0
        )

    def _name_of(self, member: MemberSnapshot) -> str:
        return member.client_id if member.client_id in self._stage.actors else f"your {member.client_id}"

    def _add_event(self, text: str) -> None:
        self.story.add_event(time.monotonic(), text)
