"""The fields of one message in one version, from which the programs are compiled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

from mesh.wire.entities.kinds import EntityKind


class NoDefault(Enum):
    """The default of a field that declares none: zero or empty."""

    NO_DEFAULT = 0


NO_DEFAULT: Final = NoDefault.NO_DEFAULT
Default: TypeAlias = int | float | str | Literal[NoDefault.NO_DEFAULT] | None


@dataclass(frozen=True, slots=True)
class Field:
    """A field on the wire, with one value or an array of values.

    name: kio's name, which is Kafka's in snake case. wire_type: one of Kafka's primitive types, or "struct", which has
    `fields`. kind: the kind of its values; None if the types of kio and Kafka do not determine it. tag: its tag; None
    if it is not a tagged field. default: its default value; None means null. is_time: whether it is a duration or a
    point in time, whose name lacks Kafka's `_ms` in kio.
    """

    name: str
    wire_type: str
    kind: EntityKind | None = None
    is_array: bool = False
    is_nullable: bool = False
    tag: int | None = None
    fields: tuple[Field, ...] = ()
    default: Default = NO_DEFAULT
    is_time: bool = False

    @property
    def kafka_name(self) -> str:
        """Kafka's name in snake case."""
        return f"{self.name}_ms" if self.is_time else self.name


FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}
"""The sizes of types with a fixed size, in bytes."""
