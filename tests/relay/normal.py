"""Answers in normal form, for comparison: with the brokers' own addresses, and without volatile parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from kio.serial import entity_reader
from kio.serial.errors import SerialError

from tests.integration.raw import Endpoint
from tests.relay.front import Front
from tests.relay.requests import schema_of_answer
from tests.relay.volatile import MAY_DIFFER, UNORDERED, VOLATILE
from tests.wire.entities import encode

PLACES: Final[Mapping[str, frozenset[str]]] = {
    "metadata": frozenset({"brokers"}),
    "find_coordinator": frozenset({"", "coordinators"}),
    "describe_cluster": frozenset({"brokers"}),
    "produce": frozenset({"node_endpoints"}),
    "fetch": frozenset({"node_endpoints"}),
    "share_fetch": frozenset({"node_endpoints"}),
    "share_acknowledge": frozenset({"node_endpoints"}),
}
"""Places of broker addresses in answers; the eighth changed API is ApiVersions."""

_CONTROLLERS = 2
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|^[A-Za-z0-9_-]{22}$")
_NO_NUMBER: Final = (0, -1)
_BLANK_NUMBER, _BLANK_UUID = 77, UUID(int=77)


@dataclass(frozen=True, slots=True)
class Normal:
    """An answer in normal form. kept: the parts that must be equal; volatile: the other parts, by path; body: for
    people."""

    kept: bytes | None
    volatile: Mapping[str, list[Any]]
    body: Any

    def by_path(self) -> dict[str, Any]:
        """Every field of an answer, by path."""
        return dict(_flat(self.body, ""))


def normal(
    api: str, version: int, answer: bytes | None, front: Front | None = None, behind: Front | None = None
) -> Normal:
    """front: the front that the answer came through; None for none. behind: a front that may hide some advertised
    APIs."""
    if answer is None:
        return Normal(None, {}, "the connection is closed")
    parts = _parts(api, version, answer)
    if parts is None:
        return Normal(answer, {}, answer.hex(" "))
    header, body = parts
    blanking = _Blanking(api, front)
    if api == "api_versions" and behind is not None:
        body = replace(body, api_keys=tuple(_advertised(body.api_keys, behind)))
    kept = blanking.value(body, "")
    return Normal(header + encode(kept), blanking.volatile, kept)


def _parts(api: str, version: int, answer: bytes) -> tuple[bytes, Any] | None:
    """Header and body; None if kio cannot read it, or not every byte of it."""
    schema = schema_of_answer(api, version)
    if schema is None:
        return None
    try:
        _, start = entity_reader(schema.__header_schema__)(answer, 0)
        body, _ = entity_reader(schema)(answer, start)
        is_whole = encode(body) == answer[start:]
    except (SerialError, ValueError):
        return None
    return (answer[:start], body) if is_whole else None


def _advertised(api_keys: Iterable[Any], front: Front) -> Iterator[Any]:
    for each in api_keys:
        if each.api_key not in front.hidden:
            oldest = front.oldest.get(each.api_key, 0)
            yield replace(each, min_version=type(each.min_version)(max(each.min_version, oldest)))


class _Blanking:
    """Goes through an answer once."""

    def __init__(self, api: str, front: Front | None) -> None:
        self.volatile: dict[str, list[Any]] = {}
        self._paths = {**VOLATILE.get(api, {}), **MAY_DIFFER.get(api, {})}
        self._unordered = UNORDERED.get(api, {})
        self._places = PLACES.get(api, frozenset())
        self._own = front.own_addresses if front else None

    def value(self, entity: Any, path: str) -> Any:
        """An instance of one of kio's classes."""
        if path in self._places and self._own is not None and hasattr(entity, "host"):
            entity = self._with_own_address(entity)
        changed = {}
        for each in fields(entity):
            below = f"{path}.{each.name}".lstrip(".")
            value = getattr(entity, each.name)
            is_here = each.name == "brokers" and getattr(entity, "endpoint_type", None) == _CONTROLLERS
            changed[each.name] = value if is_here else self._field(value, below)
        return replace(entity, **changed)

    def _field(self, value: Any, path: str) -> Any:
        if path in self._paths:
            self.volatile.setdefault(path, []).append(value)
            return _blank(value)
        if isinstance(value, tuple):
            elements = [self._field(each, path) for each in value]
            return tuple(sorted(elements, key=encode) if path in self._unordered else elements)
        return self.value(value, path) if is_dataclass(value) else value

    def _with_own_address(self, entity: Any) -> Any:
        said = Endpoint(entity.host, entity.port)
        if not said.host:
            return entity  # there is none
        assert self._own is not None
        own = self._own.get(said, Endpoint(f"not an address of the front: {said.host}", said.port))
        return replace(entity, host=own.host, port=own.port)


def _blank(value: Any) -> Any:
    """Keeps values that mean "none"; of a text, the parts that are not ids."""
    match value:
        case None | True | False:
            return value
        case tuple():
            return tuple(_blank(each) for each in value)
        case str():
            return _UUID.sub("ID", value)
        case bytes():
            return b"blank" if value else value
        case UUID():
            return _BLANK_UUID
        case datetime():
            return datetime.fromtimestamp(0, UTC)
        case timedelta():
            return timedelta(0)
        case _:
            return value if value in _NO_NUMBER else _BLANK_NUMBER


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        yield f"{path}[]", len(value)
        for number, each in enumerate(value):
            yield from _flat(each, f"{path}[{number}]")
    elif is_dataclass(value):
        for field in fields(value):
            yield from _flat(getattr(value, field.name), f"{path}.{field.name}".lstrip("."))
    else:
        yield path, value


def differing(one: Mapping[str, list[Any]], other: Mapping[str, list[Any]]) -> Iterator[str]:
    """The paths of unequal values."""
    yield from (path for path, values in one.items() if values != other.get(path))
