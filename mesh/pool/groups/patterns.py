"""Subscriptions by regular expression (KIP-848). The coordinator finds the matching topics, with the syntax of RE2, as
brokers do.

Clients send such expressions, and they run on the thread that serves all clients. RE2 takes time proportional to the
length of the name times the size of the expression, which is bounded here. Python's own `re` may never end.
"""

from __future__ import annotations

from typing import Final

import re2

from mesh.pool.common.topics import VirtualTopics
from mesh.records.spans import TopicName

LONGEST: Final = 1_024
"""The most characters of an expression. Brokers limit only the request."""
LARGEST: Final = 1_250
"""The most RE2 instructions of an expression. A few characters can repeat a part a thousand times, and then need
thousands."""
MOST_KEPT: Final = 32
"""The most expressions of one group whose topics are cached."""
_MEMORY: Final = 1 << 20
"""The most bytes that RE2 may use for a match. With less, it is a hundred times slower for large expressions."""


class InvalidPattern(ValueError):
    """Raised for an expression that is not allowed. The message has the reason."""


class TopicPattern:
    """A regular expression for the names of topics."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        """Compiles the expression. Raises InvalidPattern."""
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
            re2.purge()  # re2 would keep the last 128 patterns with all their memory
        if self._compiled.programsize > LARGEST:
            raise InvalidPattern("a regular expression that repeats too much: RE2 would need too long for each topic")

    def matches(self, name: TopicName) -> bool:
        """Returns whether the expression matches the whole name."""
        return self._compiled.fullmatch(name) is not None


class MatchingTopics:
    """A cache of the topics that match the expressions of one group, until the topics change."""

    def __init__(self, topics: VirtualTopics) -> None:
        self._topics = topics
        self._version = topics.version
        self._found: dict[str, list[TopicName]] = {}

    def of(self, text: str) -> list[TopicName]:
        """Returns the names of matching topics. text: as in `TopicPattern`."""
        if self._version != self._topics.version or (text not in self._found and len(self._found) >= MOST_KEPT):
            self._version = self._topics.version
            self._found.clear()
        if text not in self._found:
            pattern = TopicPattern(text)
            self._found[text] = [name for name in self._topics.names() if pattern.matches(name)]
        return self._found[text]
