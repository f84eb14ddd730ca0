"""Which interceptors see the records of a topic."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mesh.interceptors.chain import InterceptorName, OnFailure
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


@dataclass(frozen=True, slots=True)
class Chosen:
    """The interceptors of a topic, in the order in which they see its records; one at least."""

    interceptors: tuple[ConfiguredInterceptor, ...]

    @property
    def names(self) -> tuple[InterceptorName, ...]:
        return tuple(each.name for each in self.interceptors)

    @property
    def is_inline(self) -> bool:
        return all(each.isolation is Isolation.INLINE for each in self.interceptors)

    @property
    def on_failure(self) -> OnFailure:
        """Where it is not known which of them failed: the one that lets the least pass."""
        order = (OnFailure.FAIL, OnFailure.REJECT, OnFailure.DROP, OnFailure.PASS)
        return min((each.on_failure for each in self.interceptors), key=order.index)


class Selection:
    """The interceptors of a virtual cluster, in the order of its configuration: producers' records go through them in
    this order, consumers' in the reverse one. What it finds it remembers."""

    def __init__(self, interceptors: Sequence[ConfiguredInterceptor]) -> None:
        self.interceptors: Final = tuple(interceptors)
        self.sides: Final = frozenset(on for each in interceptors for on in each.on)
        self._matching: Final = [(each, _matcher(each.topics), _matcher(each.principals)) for each in interceptors]
        self._found: dict[tuple[str, On, Principal], Chosen | None] = {}

    def chosen(self, topic: str, on: On, principal: Principal) -> Chosen | None:
        """None: nobody wants to see its records."""
        key = topic, on, principal
        if key not in self._found:
            if len(self._found) >= MOST_KEPT:  # peers choose the names
                self._found.clear()
            self._found[key] = self._choose(*key)
        return self._found[key]

    def _choose(self, topic: str, on: On, principal: Principal) -> Chosen | None:
        chosen = [
            each
            for each, is_topic, is_principal in self._matching
            if on in each.on and is_topic(topic) and is_principal(principal)
        ]
        if not chosen:
            return None
        return Chosen(tuple(chosen if on is On.PRODUCE else reversed(chosen)))


def _matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    match = re.compile("|".join(map(fnmatch.translate, patterns))).match
    return lambda name: match(name) is not None
