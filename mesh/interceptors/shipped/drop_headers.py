"""`drop_headers` removes headers whose names match a pattern."""

from __future__ import annotations

import fnmatch
import re
from typing import Annotated, Final

from pydantic import Field

from mesh.interceptors.spi import KEEP, Effect, Interceptor, NoConfig, Outcome, Reads, Record, Where


class DropHeadersConfig(NoConfig):
    """The configuration of `drop_headers`. names: shell patterns."""

    names: Annotated[tuple[str, ...], Field(min_length=1)] = Field(description="Patterns of names of headers.")


class DropHeaders(Interceptor):
    """An interceptor that removes headers. A record without any of them stays as it is."""

    reads = Reads.HEADERS
    effect = Effect.MAP
    config = DropHeadersConfig

    def __init__(self, config: DropHeadersConfig) -> None:
        self._matches: Final = re.compile("|".join(map(fnmatch.translate, config.names))).match

    def intercept(self, record: Record, where: Where) -> Outcome:
        kept = [header for header in record.headers if not self._matches(header[0])]
        return KEEP if len(kept) == len(record.headers) else record.with_headers(kept)
