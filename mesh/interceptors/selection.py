"""Which interceptors see the records of a topic."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from mesh.interceptors.chain import InterceptorName, OnFailure, Placed
from mesh.interceptors.spi import On
from mesh.security.principals import Principal

MOST_KEPT: Final = 10_000
"""Topics and principals whose interceptors are remembered."""


class Isolation(Enum):
    """The place where an interceptor runs: in a worker, or on the thread that serves everybody."""

    PROCESS = "process"
    INLINE = "inline"


@dataclass(frozen=True, slots=True)
class ConfiguredInterceptor:
    """An interceptor as it is configured. topics, principals: patterns as the shell's. timeout: seconds."""

    name: InterceptorName
    type: str
    topics: tuple[str, ...]
    on: frozenset[On]
    principals: tuple[str, ...]
    timeout: float
    retries: int
    on_failure: OnFailure
    isolation: Isolation


class Stop(NamedTuple):
    """A place with interceptors on the way of a topic's records: a virtual cluster, or a route. topic: as it is called
    there. route: the path of routes that leads there; None for a virtual cluster."""

    interceptors: tuple[ConfiguredInterceptor, ...]
    topic: str
    route: str | None = None


StopsOf: TypeAlias = Callable[[str], Sequence[Stop]]
"""The stops of a topic, which is called as clients do, in the order in which producers' records come to them."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The interceptors of a topic, in the order in which they see its records; one at least. steps: of each."""

    interceptors: tuple[ConfiguredInterceptor, ...]
    steps: tuple[Placed, ...]

    @property
    def is_inline(self) -> bool:
        return all(each.isolation is Isolation.INLINE for each in self.interceptors)

    @property
    def on_failure(self) -> OnFailure:
        """Where it is not known which of them failed: the one that lets the least pass."""
        order = (OnFailure.FAIL, OnFailure.REJECT, OnFailure.DROP, OnFailure.PASS)
        return min((each.on_failure for each in self.interceptors), key=order.index)


class Selection:
    """The interceptors that see the records of clients. Producers' records go through them in the order of the
    configuration, consumers' in the reverse one. What it finds it remembers.

    interceptors: of all stops.
    """

    def __init__(self, interceptors: Iterable[ConfiguredInterceptor], stops_of: StopsOf) -> None:
        self.sides: Final = frozenset(on for each in interceptors for on in each.on)
        self._stops_of = stops_of
        self._matching: Final[dict[ConfiguredInterceptor, tuple[_Matcher, _Matcher]]] = {}
        self._found: dict[tuple[str, On, Principal], Chosen | None] = {}

    def change(self, stops_of: StopsOf) -> None:
        """Topics have other stops from now on, with interceptors that were there before."""
        self._stops_of = stops_of
        self._found.clear()

    def chosen(self, topic: str, on: On, principal: Principal) -> Chosen | None:
        """None: nobody wants to see its records."""
        key = topic, on, principal
        if key not in self._found:
            if len(self._found) >= MOST_KEPT:  # peers choose the names
                self._found.clear()
            self._found[key] = self._choose(*key)
        return self._found[key]

    def _choose(self, topic: str, on: On, principal: Principal) -> Chosen | None:
        found = [
            (each, Placed(each.name, stop.topic, stop.route))
            for stop in self._stops_of(topic)
            for each in stop.interceptors
            if on in each.on and self._matches(each, stop.topic, principal)
        ]
        if not found:
            return None
        if on is On.FETCH:
            found.reverse()
        return Chosen(tuple(each for each, _ in found), tuple(step for _, step in found))

    def _matches(self, interceptor: ConfiguredInterceptor, topic: str, principal: Principal) -> bool:
        if interceptor not in self._matching:
            self._matching[interceptor] = _matcher(interceptor.topics), _matcher(interceptor.principals)
        is_topic, is_principal = self._matching[interceptor]
        return is_topic(topic) and is_principal(principal)


_Matcher: TypeAlias = Callable[[str], bool]


def _matcher(patterns: Iterable[str]) -> _Matcher:
    match = re.compile("|".join(map(fnmatch.translate, patterns))).match
    return lambda name: match(name) is not None
