"""`stamp` adds headers with the producer of a record, the virtual cluster, and the time."""

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
    """The configuration of `stamp`. headers: a text for each name. It may contain {principal}, {client_id},
    {virtual_cluster}, {topic} and {time}, which is in milliseconds."""

    headers: Annotated[dict[str, Template], Field(min_length=1)] = Field(
        description="Headers by their names, with texts."
    )


class Stamp(Interceptor):
    """An interceptor that sets headers. It replaces headers with the same names, so that no producer can forge them."""

    reads = Reads.HEADERS
    effect = Effect.MAP
    config = StampConfig

    def __init__(self, config: StampConfig) -> None:
        self._templates: Final = dict(config.headers)

    def intercept(self, record: Record, where: Where) -> Outcome:
        values = {
            "principal": where.principal,
            "client_id": where.client_id or "",
            "virtual_cluster": where.virtual_cluster,
            "topic": where.topic,
            "time": time.time_ns() // 1_000_000,
        }
        kept: list[Header] = [header for header in record.headers if header[0] not in self._templates]
        stamps = [(name, template.format(**values).encode()) for name, template in self._templates.items()]
        return record.with_headers([*kept, *stamps])
