"""`schema_id` refuses values that do not begin with the id of a schema that a registry has for their topic.

The wire format of Confluent's serializers: a zero byte, four bytes of the id, the payload, which is not looked at. The
registry is asked once for each id: a schema never changes. One that it does not know for the topic is asked for again
after a while, for it may be registered meanwhile.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from mesh.interceptors.spi import KEEP, Effect, Interceptor, NoConfig, Outcome, Reads, Record, Reject, Where

_MAGIC: Final = b"\0"
_PREFIX: Final = 5
_MOST_KEPT: Final = 10_000
_ASK_AGAIN: Final = 10.0
"""Seconds after which the registry is asked again about a schema that it did not have for a topic."""
_LARGEST: Final = 1 << 20
_NOT_FOUND: Final = 404


def _check_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise PydanticCustomError("registry", "the URL of a schema registry: http://HOST:PORT or https://HOST:PORT")
    return url.rstrip("/")


class SchemaIdConfig(NoConfig):
    """registry: its URL. subject: of a topic, in which {topic} stands for its name."""

    registry: Annotated[str, AfterValidator(_check_url)] = Field(description="URL of a schema registry.")
    subject: str = Field(default="{topic}-value", description="Name of the subject; {topic} stands for the topic.")
    timeout: Annotated[float, Field(gt=0, le=60)] = Field(default=2.0, description="Seconds the registry has.")


class _Subjects(NamedTuple):
    """The subjects that have a schema. asked: when, by the clock."""

    names: frozenset[str]
    asked: float


class SchemaId(Interceptor):
    """An interceptor that refuses values without the id of a schema of their topic; a value that is null is kept."""

    reads = Reads.VALUE
    effect = Effect.CHECK
    config = SchemaIdConfig

    def __init__(self, config: SchemaIdConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config: Final = config
        self._clock: Final = clock
        self._known: dict[int, _Subjects] = {}

    def intercept(self, record: Record, where: Where) -> Outcome:
        value = record.value
        if value is None:
            return KEEP
        if len(value) < _PREFIX or value[:1] != _MAGIC:
            raise Reject("a value that does not begin with the id of a schema")
        id, subject = int.from_bytes(value[1:_PREFIX], "big"), self._config.subject.replace("{topic}", where.topic)
        if subject not in self._subjects(id, subject):
            raise Reject(f"schema {id} is none of the subject {subject}")
        return KEEP

    def _subjects(self, id: int, wanted: str) -> frozenset[str]:
        known, now = self._known.get(id), self._clock()
        if known is not None and (wanted in known.names or now < known.asked + _ASK_AGAIN):
            return known.names
        if len(self._known) >= _MOST_KEPT:  # producers choose the ids
            self._known.clear()
        names = self._ask(id)
        self._known[id] = _Subjects(names, now)
        return names

    def _ask(self, id: int) -> frozenset[str]:
        url = f"{self._config.registry}/schemas/ids/{id}/versions"
        try:
            with urllib.request.urlopen(url, timeout=self._config.timeout) as response:  # the URL is the operator's
                found = json.loads(response.read(_LARGEST))
        except urllib.error.HTTPError as problem:
            if problem.code == _NOT_FOUND:
                return frozenset()
            raise
        return frozenset(str(each["subject"]) for each in found)
