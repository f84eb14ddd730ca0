"""`filter` keeps the records with a header whose value equals a text, or matches a pattern."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import Final

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from mesh.interceptors.spi import DROP, KEEP, Effect, Interceptor, NoConfig, Outcome, Reads, Record, Where


class FilterConfig(NoConfig):
    """The configuration of `filter`. header: the header's name. equals, pattern: the text or the pattern for its value;
    one of them."""

    header: str = Field(description="Name of a header.")
    equals: str | None = Field(default=None, description="The required value.")
    pattern: str | None = Field(default=None, description="A pattern that its value matches, in place of equals.")

    @model_validator(mode="after")
    def _one_of_both(self) -> FilterConfig:
        if (self.equals is None) is (self.pattern is None):
            raise PydanticCustomError("filter", "a mapping with header, and one of equals and pattern")
        return self


class Filter(Interceptor):
    """An interceptor that keeps the records that match, and drops all others. Of several headers with the same name the
    last one counts."""

    reads = Reads.HEADERS
    effect = Effect.FILTER
    config = FilterConfig

    def __init__(self, config: FilterConfig) -> None:
        self._header: Final = config.header
        self._matches: Final = _matching(config)

    def intercept(self, record: Record, where: Where) -> Outcome:
        values = [value for name, value in record.headers if name == self._header]
        return KEEP if values and values[-1] is not None and self._matches(values[-1]) else DROP


def _matching(config: FilterConfig) -> Callable[[bytes], bool]:
    if config.equals is not None:
        wanted = config.equals.encode()
        return lambda value: value == wanted
    match = re.compile(fnmatch.translate(config.pattern or "")).match
    return lambda value: match(value.decode(errors="replace")) is not None
