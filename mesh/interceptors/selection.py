"""Chooses the interceptors that see the records of a topic."""

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
"""The most topics and principals whose interceptors are remembered."""


class Isolation(Enum):
    """The place where an interceptor runs: in a worker, or on the thread that serves all clients."""

    PROCESS = "process"
    INLINE = "inline"


@dataclass(frozen=True, slots=True)
class ConfiguredInterceptor:
    """An interceptor with its configuration. topics, principals: shell patterns. timeout: in seconds. may_drop: whether
    its effect is FILTER."""

    name: InterceptorName
    type: str
    topics: tuple[str, ...]
    on: frozenset[On]
    principals: tuple[str, ...]
    timeout: float
    retries: int
    on_failure: OnFailure
    isolation: Isolation
    may_drop: bool = False


class InterceptionPoint(NamedTuple):
    """A place with interceptors on the way of a topic's records: a virtual cluster, or a route. topic: its name at that
    place. route: the path of routes to that place; None for a virtual cluster."""

    interceptors: tuple[ConfiguredInterceptor, ...]
    topic: str
    route: str | None = None


PointsOf: TypeAlias = Callable[[str], Sequence[InterceptionPoint]]
"""Returns the interception points of a topic by the name that clients use, in the order in which producers' records
pass them."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The interceptors of a topic, at least one, in the order in which they see its records. steps: one for each."""

    interceptors: tuple[ConfiguredInterceptor, ...]
    steps: tuple[Placed, ...]

    @property
    def is_inline(self) -> bool:
        return all(each.isolation is Isolation.INLINE for each in self.interceptors)

    @property
    def may_drop(self) -> bool:
        return any(each.may_drop for each in self.interceptors)

    @property
    def on_failure(self) -> OnFailure:
        """The reaction if it is unknown which of them failed: the strictest one."""
        order = (OnFailure.FAIL, OnFailure.REJECT, OnFailure.DROP, OnFailure.PASS)
        return min((each.on_failure for each in self.interceptors), key=order.index)


class Selection:
    """The interceptors for the records of clients. Producers' records pass them in the order of the configuration,
    consumers' records in the reverse order. Results are cached.

    interceptors: those of all interception points.
    """

    def __init__(self, interceptors: Iterable[ConfiguredInterceptor], points_of: PointsOf) -> None:
        every = tuple(interceptors)
        self.sides: Final = frozenset(on for each in every for on in each.on)
        self.may_drop_produced: Final = may_drop_produced(every)
        self._points_of = points_of
        self._matching: Final[dict[ConfiguredInterceptor, tuple[_Matcher, _Matcher]]] = {}
        self._found: dict[tuple[str, On, Principal], Chosen | None] = {}

    def change(self, points_of: PointsOf) -> None:
        """Replaces the interception points of topics; all their interceptors must have been given to `__init__`."""
        self._points_of = points_of
        self._found.clear()

    def chosen(self, topic: str, on: On, principal: Principal) -> Chosen | None:
        """Returns the interceptors of a topic and principal; None if none of them wants its records."""
        key = topic, on, principal
        if key not in self._found:
            if len(self._found) >= MOST_KEPT:  # bounded, since clients choose the names
                self._found.clear()
            self._found[key] = self._choose(*key)
        return self._found[key]

    def _choose(self, topic: str, on: On, principal: Principal) -> Chosen | None:
        found = [
            (each, Placed(each.name, point.topic, point.route))
            for point in self._points_of(topic)
            for each in point.interceptors
            if on in each.on and self._matches(each, point.topic, principal)
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


def may_drop_produced(interceptors: Iterable[ConfiguredInterceptor]) -> bool:
    """Returns whether one of them may drop records of producers."""
    return any(On.PRODUCE in each.on and each.may_drop for each in interceptors)


_Matcher: TypeAlias = Callable[[str], bool]


def _matcher(patterns: Iterable[str]) -> _Matcher:
    match = re.compile("|".join(map(fnmatch.translate, patterns))).match
    return lambda name: match(name) is not None
