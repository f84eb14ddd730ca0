"""The fields of one message in one version: what the programs are made of."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.wire.entities.kinds import Kind


@dataclass(frozen=True, slots=True)
class Field:
    """A field as it stands on the wire, of one value or of an array of them.

    name: kio's, Kafka's in small letters.
    wire_type: one of Kafka's primitive types, or "struct", of `fields`.
    kind: of its values; None where the types of kio and Kafka do not say it.
    tag: its number; None: it is always there.
    """

    name: str
    wire_type: str
    kind: Kind | None = None
    is_array: bool = False
    is_nullable: bool = False
    tag: int | None = None
    fields: tuple[Field, ...] = ()


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
