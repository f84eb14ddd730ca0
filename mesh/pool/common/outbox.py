"""The outbox for the effects of a step, and the objects that every part of a pool shares."""

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

    The pools of a virtual cluster share one list of effects, since one step may involve several of them.
    """

    __slots__ = ("_about", "_effects", "put")

    def __init__(self, effects: list[Effect] | None = None, about: Mapping[str, object] = NO_FIELDS) -> None:
        """about: fields that every report has in addition to its own."""
        self._effects: list[Effect] = [] if effects is None else effects
        self._about = about
        self.put = self._effects.append
        """Adds an effect."""

    def of_group(self, group: GroupId) -> Outbox:
        """Returns an outbox for one pool, with the same list of effects. Its reports name the group."""
        return Outbox(self._effects, {"group": group})

    def answer(self, ticket: Ticket, result: object) -> None:
        self.put(Answer(ticket, result))

    def report(self, event: str, fields: Mapping[str, object] = NO_FIELDS, level: str = "info") -> None:
        """Reports an event to operators. event: a fixed phrase."""
        self.put(Report(event, {**self._about, **fields}, level))

    def take_all(self) -> list[Effect]:
        """Returns all effects, and clears the outbox for the next step."""
        effects = self._effects[:]
        self._effects.clear()
        return effects


@dataclass(slots=True)
class CurrentShareSettings:
    """The current settings of the share members of one group. They are replaced when the group's configuration
    changes."""

    value: ShareSettings


@dataclass(frozen=True, slots=True)
class PoolParts:
    """The objects that each part of one pool shares: the pool's group, settings, timers and outbox."""

    group: GroupId
    settings: PoolSettings
    timers: Timers
    outbox: Outbox
    share: CurrentShareSettings
