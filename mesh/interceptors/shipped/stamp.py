"""`stamp` puts headers on records that say who sent them, through what, and when."""

from __future__ import annotations

import time
from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from mesh.interceptors.spi import Effect, Header, Interceptor, NoConfig, Outcome, Reads, Record, Where

FIELDS: Final = ("principal", "client_id", "virtual_cluster", "topic", "time")


def _check(template: str) -> str:
    try:
        template.format(**dict.fromkeys(FIELDS, ""))
    except (KeyError, ValueError, IndexError, AttributeError):
        allowed = f"a text in which {', '.join(f'{{{field}}}' for field in FIELDS)} may stand"
        raise PydanticCustomError("stamp", "{allowed}", {"allowed": allowed}) from None
    return template


Template = Annotated[str, AfterValidator(_check)]


class StampConfig(NoConfig):
    """headers: names, each with a text in which {principal}, {client_id}, {virtual_cluster}, {topic} and {time}, in
    milliseconds, may stand."""

    headers: Annotated[dict[str, Template], Field(min_length=1)] = Field(
        description="Headers by their names, with texts."
    )


class Stamp(Interceptor):
    """An interceptor that puts headers on records, in place of those that have the same names: nobody stamps for
    another."""

    reads = Reads.HEADERS
    effect = Effect.MAP
    config = StampConfig

    def __init__(self, config: StampConfig) -> None:
        self._templates: Final = dict(config.headers)

    def intercept(self, record: Record, where: Where) -> Outcome:
        said = {
            "principal": where.principal,
            "client_id": where.client_id or "",
            "virtual_cluster": where.virtual_cluster,
            "topic": where.topic,
            "time": time.time_ns() // 1_000_000,
        }
        kept: list[Header] = [header for header in record.headers if header[0] not in self._templates]
        stamps = [(name, template.format(**said).encode()) for name, template in self._templates.items()]
        return record.with_headers([*kept, *stamps])
