"""What every section of the configuration is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def keys_of(value: object) -> set[str]:
    """What tells the kinds of a union apart: the keys of a mapping, or of a model made of one."""
    return set(value) if isinstance(value, dict) else set(vars(value)) if isinstance(value, Model) else set()
