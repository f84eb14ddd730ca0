"""The fields of one message in one version: what the programs are made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

from mesh.wire.entities.kinds import Kind


class Unsaid(Enum):
    """A default that nobody has declared: what is zero or empty of the field's type."""

    UNSAID = 0


UNSAID: Final = Unsaid.UNSAID
Default: TypeAlias = int | float | str | Literal[Unsaid.UNSAID] | None


@dataclass(frozen=True, slots=True)
class Field:
    """A field as it stands on the wire, of one value or of an array of them.

    name: kio's, Kafka's in small letters.
    wire_type: one of Kafka's primitive types, or "struct", of `fields`.
    kind: of its values; None where the types of kio and Kafka do not say it.
    tag: its number; None: it is always there.
    default: what the field has where nobody sets it; None is null.
    is_time: a duration or a point in time, whose name kio leaves Kafka's `_ms` off.
    """

    name: str
    wire_type: str
    kind: Kind | None = None
    is_array: bool = False
    is_nullable: bool = False
    tag: int | None = None
    fields: tuple[Field, ...] = ()
    default: Default = UNSAID
    is_time: bool = False

    @property
    def kafka_name(self) -> str:
        """Kafka's name in small letters."""
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
"""The bytes of the types that always have as many."""
