"""`size` refuses records that are larger than allowed."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from mesh.interceptors.spi import KEEP, Effect, Interceptor, NoConfig, On, Outcome, Reads, Record, Reject, Where
from mesh.quantities import parse_size


class SizeConfig(NoConfig):
    """The configuration of `size`. maximum: the most bytes of key, value and headers, uncompressed."""

    maximum: Annotated[int, BeforeValidator(parse_size), Field(ge=1)] = Field(
        description="Bytes of key, value and headers of a record."
    )


class Size(Interceptor):
    """An interceptor that refuses records above a size, however well a batch compresses them."""

    reads = Reads.HEADERS
    effect = Effect.CHECK
    on = frozenset({On.PRODUCE})
    config = SizeConfig

    def __init__(self, config: SizeConfig) -> None:
        self._maximum: Final = config.maximum

    def intercept(self, record: Record, where: Where) -> Outcome:
        if record.size > self._maximum:
            raise Reject(f"a record of {record.size} bytes; up to {self._maximum} are allowed")
        return KEEP
