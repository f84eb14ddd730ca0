"""`sample` keeps the records of a part of all keys: always the same keys."""

from __future__ import annotations

import hashlib
from typing import Annotated, Final

from pydantic import Field

from mesh.interceptors.spi import DROP, KEEP, Effect, Interceptor, NoConfig, Outcome, Reads, Record, Where

_WHOLE: Final = 1 << 32


class SampleConfig(NoConfig):
    """The configuration of `sample`. part: the part of all keys, above 0 and up to 1."""

    part: Annotated[float, Field(gt=0, le=1)] = Field(description="The part of all keys whose records are kept.")


class Sample(Interceptor):
    """An interceptor that keeps a record if the hash of its key is low enough. It drops records without a key."""

    reads = Reads.KEY
    effect = Effect.FILTER
    config = SampleConfig

    def __init__(self, config: SampleConfig) -> None:
        self._below: Final = config.part * _WHOLE

    def intercept(self, record: Record, where: Where) -> Outcome:
        if record.key is None:
            return DROP
        found = int.from_bytes(hashlib.blake2b(record.key, digest_size=4).digest(), "big")
        return KEEP if found < self._below else DROP
