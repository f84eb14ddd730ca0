"""Kafka's own definitions of its messages, out of its jar, as the fields that one version has on the wire."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from tests.integration.jars import NEWEST_CLIENTS, kafka_jars

ENTITY_TYPES = {
    "brokerId": EntityKind.NODE,
    "groupId": EntityKind.GROUP,
    "producerId": EntityKind.PRODUCER,
    "topicName": EntityKind.TOPIC,
    "transactionalId": EntityKind.TRANSACTIONAL_ID,
}


class Shape(NamedTuple):
    """A field without its name. entity: the entity type that Kafka declares, None if there is none."""

    wire_type: str
    is_array: bool
    is_nullable: bool
    tag: int | None
    entity: EntityKind | None
    fields: tuple[Shape, ...]


class Definition(NamedTuple):
    content: Mapping[str, Any]

    @property
    def listeners(self) -> list[str]:
        return list(self.content.get("listeners", ()))

    def shapes(self, version: int) -> tuple[Shape, ...]:
        structs = {struct["name"]: struct["fields"] for struct in self.content.get("commonStructs", ())}
        return _shapes(self.content["fields"], structs, version)


@cache
def definitions() -> Mapping[tuple[ApiKey, Direction], Definition]:
    """Kafka's definitions of every API of which it still has a version."""
    found = {}
    with zipfile.ZipFile(kafka_jars(NEWEST_CLIENTS) / f"{NEWEST_CLIENTS}.jar") as jar:
        for name in jar.namelist():
            if name.startswith("common/message/") and name.endswith(("Request.json", "Response.json")):
                lines = jar.read(name).decode().splitlines()
                content = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
                if content.get("validVersions") != "none":
                    found[ApiKey(content["apiKey"]), Direction[content["type"].upper()]] = Definition(content)
    return found


def shapes_of(fields: tuple[Field, ...]) -> tuple[Shape, ...]:
    """The shapes of our fields, as if Kafka declared all that it could."""
    return tuple(
        Shape(
            field.wire_type,
            field.is_array,
            field.is_nullable,
            field.tag,
            field.kind if field.kind in ENTITY_TYPES.values() else None,
            shapes_of(field.fields),
        )
        for field in fields
    )


def _shapes(fields: Any, structs: Mapping[str, Any], version: int) -> tuple[Shape, ...]:
    return tuple(_shape(field, structs, version) for field in fields if _includes(field["versions"], version))


def _shape(field: Mapping[str, Any], structs: Mapping[str, Any], version: int) -> Shape:
    name = field["type"].removeprefix("[]")
    inner = field.get("fields") or structs.get(name)
    return Shape(
        wire_type="struct" if inner else name,
        is_array=field["type"].startswith("[]"),
        is_nullable=_includes(field.get("nullableVersions", "none"), version),
        tag=field["tag"] if _includes(field.get("taggedVersions", "none"), version) else None,
        entity=ENTITY_TYPES.get(field.get("entityType", "")),
        fields=_shapes(inner, structs, version) if inner else (),
    )


def _includes(versions: str, version: int) -> bool:
    if versions == "none":
        return False
    lowest, _, highest = versions.partition("-")
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    return int(lowest) <= version <= int(highest or lowest)
