"""`schema_id` refuses values that do not begin with the id of a schema that a registry has for their topic.

The wire format is that of Confluent's serializers: a zero byte, four bytes of id, and the payload, which is not
checked. The registry is asked once for each id, since a schema never changes. If it does not know a schema for the
topic, it is asked again after a while, since the schema may be registered meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from mesh.interceptors.shipped.registry import Registry, RegistryUrl, id_of
from mesh.interceptors.spi import KEEP, Effect, Interceptor, NoConfig, Outcome, Reads, Record, Reject, Where

_MOST_KEPT: Final = 10_000
_ASK_AGAIN: Final = 10.0
"""Seconds after which the registry is asked again for a schema that it did not have for a topic."""


class SchemaIdConfig(NoConfig):
    """The configuration of `schema_id`. registry: its URL. subject: the subject of a topic, in which {topic} stands for
    the topic's name."""

    registry: RegistryUrl = Field(description="URL of a schema registry.")
    subject: str = Field(default="{topic}-value", description="Name of the subject; {topic} stands for the topic.")
    timeout: Annotated[float, Field(gt=0, le=60)] = Field(default=2.0, description="Seconds to wait for the registry.")


class _Subjects(NamedTuple):
    """The subjects that have a schema. asked: the time of the request, by the clock."""

    names: frozenset[str]
    asked: float


class SchemaId(Interceptor):
    """An interceptor that refuses values without the id of a schema of their topic; null values are kept."""

    reads = Reads.VALUE
    effect = Effect.CHECK
    config = SchemaIdConfig

    def __init__(self, config: SchemaIdConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._subject: Final = config.subject
        self._registry: Final = Registry(config.registry, config.timeout)
        self._clock: Final = clock
        self._known: dict[int, _Subjects] = {}

    def intercept(self, record: Record, where: Where) -> Outcome:
        value = record.value
        if value is None:
            return KEEP
        id, subject = id_of(value), self._subject.replace("{topic}", where.topic)
        if subject not in self._subjects(id, subject):
            raise Reject(f"schema {id} is none of the subject {subject}")
        return KEEP

    def _subjects(self, id: int, wanted: str) -> frozenset[str]:
        known, now = self._known.get(id), self._clock()
        if known is not None and (wanted in known.names or now < known.asked + _ASK_AGAIN):
            return known.names
        if len(self._known) >= _MOST_KEPT:  # bounded, since producers choose the ids
            self._known.clear()
        names = self._registry.subjects(id)
        self._known[id] = _Subjects(names, now)
        return names
