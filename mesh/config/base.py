"""The base class of every section of the configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def keys_of(value: object) -> set[str]:
    """Returns the keys that distinguish the kinds of a union: those of a mapping, or of a model made from one."""
    return set(value) if isinstance(value, dict) else set(vars(value)) if isinstance(value, Model) else set()
