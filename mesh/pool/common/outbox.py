"""Where the decisions of a step leave what they want done, and what every part of a pool is given to decide with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mesh.apis.answers import Answer, Ticket
from mesh.pool.common.effects import Effect, Report
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import PoolSettings, ShareSettings
from mesh.pool.common.timers import Timers

NO_FIELDS: Mapping[str, object] = MappingProxyType({})


class Outbox:
    """The effects of the steps of one virtual cluster, in the order of the decisions, until they are taken out.

    The pools of a virtual cluster share one list of effects, since one step may decide for several of them.
    """

    __slots__ = ("_about", "_effects", "put")

    def __init__(self, effects: list[Effect] | None = None, about: Mapping[str, object] = NO_FIELDS) -> None:
        """about: fields that every report has beside its own."""
        self._effects: list[Effect] = [] if effects is None else effects
        self._about = about
        self.put = self._effects.append
        """Adds an effect."""

    def of_group(self, group: GroupId) -> Outbox:
        """The same outbox for one pool: its reports name the group."""
        return Outbox(self._effects, {"group": group})

    def answer(self, ticket: Ticket, result: object) -> None:
        self.put(Answer(ticket, result))

    def report(self, event: str, fields: Mapping[str, object] = NO_FIELDS, level: str = "info") -> None:
        """Tell operators something; `event` is a fixed sentence."""
        self.put(Report(event, {**self._about, **fields}, level))

    def take_all(self) -> list[Effect]:
        """Everything that has been decided; the next step begins with nothing."""
        effects = self._effects[:]
        self._effects.clear()
        return effects


@dataclass(slots=True)
class CurrentShareSettings:
    """What share members of one group have; another value when the group is configured otherwise."""

    value: ShareSettings


@dataclass(frozen=True, slots=True)
class PoolParts:
    """What each part of one pool is given: the group, the settings, the deadlines and the outbox of its pool."""

    group: GroupId
    settings: PoolSettings
    timers: Timers
    outbox: Outbox
    share: CurrentShareSettings
