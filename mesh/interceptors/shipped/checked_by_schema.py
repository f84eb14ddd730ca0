"""Checks values by a schema: one schema from a file for all of them, or the schema that each value names."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ClassVar, Final, Generic, TypeVar

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from mesh.interceptors.shipped.files import read_file
from mesh.interceptors.shipped.registry import PREFIX, Registry, RegistryUrl, id_of
from mesh.interceptors.spi import (
    KEEP,
    CannotBegin,
    Effect,
    Interceptor,
    NoConfig,
    Outcome,
    Reads,
    Record,
    Reject,
    Where,
)

_MOST_KEPT: Final = 1_000
_ASK_AGAIN: Final = 10.0
"""Seconds after which the registry is asked again for a schema that it did not have."""

Compiled = TypeVar("Compiled")


class BySchemaConfig(NoConfig):
    """The configuration of a check by schema: either schema_file or registry."""

    schema_file: Path | None = Field(default=None, description="A file with the schema of all values.")
    registry: RegistryUrl | None = Field(
        default=None, description="URL of a schema registry; each value begins with the id of its schema."
    )
    timeout: Annotated[float, Field(gt=0, le=60)] = Field(default=2.0, description="Seconds to wait for the registry.")

    @model_validator(mode="after")
    def _one_of_both(self) -> BySchemaConfig:
        if (self.schema_file is None) is (self.registry is None):
            raise PydanticCustomError("schema", "a mapping with one of schema_file and registry")
        return self


class BySchema(Interceptor, Generic[Compiled]):
    """An interceptor that rejects values that do not match their schema; null values are kept. schema_type: the name of
    the type in a registry."""

    reads = Reads.VALUE
    effect = Effect.CHECK
    config = BySchemaConfig
    schema_type: ClassVar[str]

    def __init__(self, config: BySchemaConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._registry: Final = Registry(config.registry, config.timeout) if config.registry is not None else None
        self._known: dict[int, Compiled] = {}
        self._missing: dict[int, float] = {}
        """The time at which each missing schema was last asked for."""
        if config.schema_file is not None:
            text = read_file("schema_file", config.schema_file).decode(errors="replace")
            try:
                self._known[0] = self.compiled(text)
            except Exception as problem:
                allowed = f"a file with a schema of the type {self.schema_type}: {problem}"
                raise CannotBegin("schema_file", str(config.schema_file), allowed) from problem

    @abstractmethod
    def compiled(self, text: str) -> Compiled:
        """Returns a schema for `check`. Raises any exception for an invalid one."""

    @abstractmethod
    def check(self, schema: Compiled, payload: bytes) -> None:
        """Raises Reject for a payload that does not match."""

    def intercept(self, record: Record, where: Where) -> Outcome:
        if (value := record.value) is None:
            return KEEP
        if self._registry is None:
            self.check(self._known[0], value)
        else:
            self.check(self._schema(self._registry, id_of(value)), value[PREFIX:])
        return KEEP

    def _schema(self, registry: Registry, id: int) -> Compiled:
        known = self._known.get(id)
        if known is not None:
            return known
        if self._clock() < self._missing.get(id, -_ASK_AGAIN) + _ASK_AGAIN:
            raise Reject(f"there is no schema {id}")
        if max(len(self._known), len(self._missing)) >= _MOST_KEPT:  # bounded, since producers choose the ids
            self._known.clear()
            self._missing.clear()
        found = registry.schema(id)
        if found is None:
            self._missing[id] = self._clock()
            raise Reject(f"there is no schema {id}")
        if found.type != self.schema_type:
            raise Reject(f"schema {id} is of the type {found.type}, and not {self.schema_type}")
        if found.has_references:
            raise ValueError(f"schema {id} has references to others, which are not followed")
        self._known[id] = compiled = self.compiled(found.text)
        return compiled
