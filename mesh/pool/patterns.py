"""Subscriptions by regular expression (KIP-848): the coordinator finds the topics, in the syntax of RE2, as brokers do.

Such expressions come from clients, and are tried on the thread that serves everybody: RE2 needs time in proportion to
the name and bounded memory, whatever they are, which Python's own `re` does not.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import re2

from mesh.records.spans import TopicName

LONGEST: Final = 4_096
"""Characters. Brokers have no limit but that of a request."""
_MEMORY: Final = 512 << 10
"""Bytes that one may take, compiled and at work."""


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

    def matches(self, name: TopicName) -> bool:
        """The whole of it."""
        return self._compiled.fullmatch(name) is not None


@lru_cache(maxsize=32)
def pattern_of(text: str) -> TopicPattern:
    """Members of a group have the same one. Raises InvalidPattern."""
    return TopicPattern(text)
