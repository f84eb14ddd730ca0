"""Subscriptions by regular expression (KIP-848): the coordinator finds the topics, in the syntax of RE2, as brokers do.

Such expressions come from clients, and are tried on the thread that serves everybody. RE2 needs time in proportion to
the length of the name times the size of the expression, which is bounded here; Python's own `re` may need for ever.
"""

from __future__ import annotations

from typing import Final

import re2

from mesh.pool.common.topics import VirtualTopics
from mesh.records.spans import TopicName

LONGEST: Final = 1_024
"""Characters. Brokers have no limit but that of a request."""
LARGEST: Final = 1_250
"""Instructions of RE2: what repeats something a thousand times has thousands, in a few characters."""
MOST_KEPT: Final = 32
"""Expressions of one group whose topics are remembered."""
_MEMORY: Final = 1 << 20
"""Bytes that one may take while it is at work; with less RE2 is a hundred times slower for the larger ones."""


class InvalidPattern(ValueError):
    """Says what is wrong with it."""


class TopicPattern:
    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        """Raises InvalidPattern."""
        if len(text) > LONGEST:
            raise InvalidPattern(f"a regular expression of {len(text)} characters; {LONGEST} are allowed")
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MEMORY
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as problem:
            (said,) = problem.args
            raise InvalidPattern(f"not a regular expression of RE2: {said.decode(errors='replace')}") from None
        finally:
            re2.purge()  # it would keep the last 128 with all their memory
        if self._compiled.programsize > LARGEST:
            raise InvalidPattern("a regular expression that repeats too much: RE2 would need too long for each topic")

    def matches(self, name: TopicName) -> bool:
        """The whole of it."""
        return self._compiled.fullmatch(name) is not None


class MatchingTopics:
    """Which topics match the expressions of one group, until there are others."""

    def __init__(self, topics: VirtualTopics) -> None:
        self._topics = topics
        self._version = topics.version
        self._found: dict[str, list[TopicName]] = {}

    def of(self, text: str) -> list[TopicName]:
        """text: what `TopicPattern` takes."""
        if self._version != self._topics.version or (text not in self._found and len(self._found) >= MOST_KEPT):
            self._version = self._topics.version
            self._found.clear()
        if text not in self._found:
            pattern = TopicPattern(text)
            self._found[text] = [name for name in self._topics.names() if pattern.matches(name)]
        return self._found[text]
