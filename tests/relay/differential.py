"""The same requests to a broker directly, and through a front: the answers are equal except for known differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from tests.integration.raw import Endpoint
from tests.relay.cluster import SeveralBrokers
from tests.relay.front import Front
from tests.relay.generic import ask_generic
from tests.relay.normal import PLACES, Normal, differing, normal
from tests.relay.scripts import SCRIPTS, Script
from tests.relay.scripts.newer import NEWER
from tests.relay.sides import Exchange, Shared, Side

_SHOWN = 6
"""The most differing fields of an answer to show."""


@dataclass
class Differential:
    """Sends the same requests to three sides, one after the other: the broker, the broker again, and the broker through
    the front.

    A difference between the first two is volatile, or shows a bad request; a difference of the third comes from the
    front.
    """

    first: Side
    again: Side
    through: Side
    front: Front
    seen: set[tuple[str, str]] = field(default_factory=set)
    """API and path of fields that are listed as volatile and differed."""
    closed: set[str] = field(default_factory=set)
    """APIs with a request for which the broker closes the connection."""
    _differences_of: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def before(cls, cluster: SeveralBrokers, shared: Shared, front: Front) -> Differential:
        """Opens the sides."""
        nodes: Mapping[int, Endpoint] = cluster.addresses
        sides = [Side(doors, nodes, shared) for doors in (nodes, nodes, front.doors)]
        for side in sides:
            side.open(cluster)
        return cls(sides[0], sides[1], sides[2], front)

    def compare(self, api: str, version: int) -> list[str]:
        """The differences of one API in one version, for people."""
        return self.compare_with(f"{api} {version}", *(partial(_ask, each, version) for each in _scripts(api, version)))

    def compare_with(self, name: str, *questions: Callable[[Side], None]) -> list[str]:
        """The same comparison for any requests; the second time from memory."""
        if name not in self._differences_of:
            rounds = [self._run(side, *questions) for side in (self.first, self.again, self.through)]
            self._differences_of[name] = list(self._differences(*rounds))
        return self._differences_of[name]

    def close(self) -> None:
        for side in (self.first, self.again, self.through):
            side.close()

    def _run(self, side: Side, *questions: Callable[[Side], None]) -> list[Exchange]:
        side.exchanges.clear()
        try:
            for ask in questions:
                ask(side)
        except BaseException:
            side.close()  # a late answer must not count for the next request
            raise
        return list(side.exchanges)

    def _differences(self, first: list[Exchange], again: list[Exchange], through: list[Exchange]) -> Iterator[str]:
        if not len(first) == len(again) == len(through):
            yield f"as many questions could be asked: {len(first)}, {len(again)} directly, {len(through)} through"
        self.closed |= {each.api for each in first if each.answer is None}
        for one, two, three in zip(first, again, through, strict=False):
            yield from self._difference("asked again", self.again, one, two, None)
            yield from self._difference("through the front", self.through, one, three, self.front)

    def _difference(self, how: str, side: Side, one: Exchange, other: Exchange, front: Front | None) -> Iterator[str]:
        if one.answer == other.answer and one.was_reset == other.was_reset and not _is_changed(one.api, front):
            return
        pairs = []
        # Most answers contain a side's own names. Lists of all names contain those of others, too.
        for ours, theirs in ((one.answer, other.answer), (self._renamed(one), self._renamed(other, side))):
            direct = normal(one.api, one.version, ours, None, self.front)
            pairs.append((direct, normal(one.api, one.version, theirs, front, None if front else self.front)))
        if not any(direct.kept == compared.kept for direct, compared in pairs):
            direct, compared = pairs[-1]
            yield f"{one.api} v{one.version} {how}: {one.given}{_shown(direct, compared)}"
        elif one.was_reset != other.was_reset:
            yield f"{one.api} v{one.version} {how}: reset {one.was_reset}, {other.was_reset}: {one.given}"
        if front is None:
            direct, compared = pairs[-1]
            self.seen |= {(one.api, path) for path in differing(direct.volatile, compared.volatile)}

    def _renamed(self, exchange: Exchange, side: Side | None = None) -> bytes | None:
        return None if exchange.answer is None else (side or self.first).canonical(exchange.answer)


def _is_changed(api: str, front: Front | None) -> bool:
    """True if a front must answer differently from the broker."""
    return front is not None and (api in PLACES or api == "api_versions")


def _scripts(api: str, version: int) -> Iterator[Script]:
    if (api, version) in NEWER:
        yield NEWER[api, version]
        return
    yield partial(_generic, api)
    if api in SCRIPTS:
        yield SCRIPTS[api]


def _ask(script: Script, version: int, side: Side) -> None:
    script(side, version)


def _generic(api: str, side: Side, version: int) -> None:
    ask_generic(side, api, version)


def _shown(direct: Normal, compared: Normal) -> str:
    """The first differing fields."""
    ours, theirs = direct.by_path(), compared.by_path()
    paths = [path for path in {**ours, **theirs} if ours.get(path) != theirs.get(path)]
    return "".join(f"\n    {path}: {ours.get(path)!r}, {theirs.get(path)!r}" for path in paths[:_SHOWN])
