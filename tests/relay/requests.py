"""Requests of any API in any version that kio knows, made of the few fields that matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, get_type_hints

from kio import index
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio.serial.errors import SerialError
from kio.static.primitive import i32

from tests.wire.entities import encode, unfold

CLIENT_ID = "asking"

_ANSWERED_AS = {("api_versions", 5): 4}
"""Versions that only return more than these."""

_EMPTY: Mapping[str, object] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": None,
    "bool": False,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": datetime.fromtimestamp(0, UTC),
}


NAMES: Mapping[int, str] = index.api_key_map  # type: ignore[attr-defined]  # imported there, from a table
"""Names of APIs by their key, in kio's spelling: `offset_commit`."""
KEYS = {name: key for key, name in NAMES.items()}
KNOWN: Mapping[str, Iterable[int]] = index.schema_name_map  # type: ignore[attr-defined]
"""The versions of an API that kio knows."""


def request(api_key: int, version: int, given: Mapping[str, Any], correlation_id: int = 7) -> bytes:
    """A request without its frame length. given: fields of any version. It leaves out fields that this version lacks; a
    field without a value has its default, or is empty. Times are milliseconds."""
    schema = load_request_schema(api_key, version)
    unknown = _names_in(given) - _names(api_key)
    assert not unknown, f"{NAMES[api_key]} has no {unknown} in any version"
    return request_of(entity(schema, given), correlation_id)


def request_of(body: Any, correlation_id: int = 7) -> bytes:
    """The bytes of one of kio's requests."""
    schema = type(body)
    header = schema.__header_schema__(
        request_api_key=schema.__api_key__,
        request_api_version=schema.__version__,
        correlation_id=i32(correlation_id),
        client_id=CLIENT_ID,
    )
    return encode(header) + encode(body)


def entity(schema: type, given: Mapping[str, Any]) -> Any:
    """An instance of one of kio's classes."""
    hints = get_type_hints(schema)
    return schema(**{each.name: _value(each, hints[each.name], given) for each in fields(schema)})


def _value(field: Field[Any], annotation: Any, given: Mapping[str, Any]) -> Any:
    schema, is_array, is_nullable = unfold(annotation)
    kafka_type = field.metadata.get("kafka_type")
    if field.name not in given:
        if field.default is not MISSING:
            return field.default
        if is_array:
            return ()
        return None if is_nullable else entity(schema, {}) if kafka_type is None else _EMPTY.get(kafka_type, 0)
    value = given[field.name]
    if value is None:
        return () if is_array and not is_nullable else None
    if is_array:
        return tuple(item(kafka_type, schema, each) for each in value)
    return item(kafka_type, schema, value)


def item(kafka_type: str | None, schema: type, value: Any) -> Any:
    """A value in kio's form."""
    if kafka_type is None:
        return entity(schema, value)
    if kafka_type.startswith("timedelta"):
        return timedelta(milliseconds=value)
    if kafka_type.startswith("datetime"):
        return datetime.fromtimestamp(value / 1000, UTC)
    return value


@cache
def _names(api_key: int) -> frozenset[str]:
    return frozenset().union(*(_fields_of(load_request_schema(api_key, each)) for each in KNOWN[NAMES[api_key]]))


def _fields_of(schema: type) -> set[str]:
    hints = get_type_hints(schema)
    found = set(hints)
    for each in fields(schema):
        item, _, _ = unfold(hints[each.name])
        if is_dataclass(item):
            found |= _fields_of(item)
    return found


def _names_in(given: Mapping[str, Any]) -> set[str]:
    found = set(given)
    for value in given.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(each, Mapping):
                found |= _names_in(each)
    return found


def schema_of_answer(api: str, version: int) -> Any:
    """kio's class; None for an API that it does not know."""
    version = _ANSWERED_AS.get((api, version), version)
    return load_response_schema(KEYS[api], version) if version in KNOWN.get(api, ()) else None


def read(api: str, version: int, answer: bytes | None) -> Any:
    """An answer as kio reads it; None if there is none, if kio does not know it, or cannot read it: a time of -1,
    say."""
    schema = schema_of_answer(api, version)
    if answer is None or schema is None:
        return None
    _, size = entity_reader(schema.__header_schema__)(answer, 0)
    try:
        return entity_reader(schema)(answer, size)[0]
    except (SerialError, ValueError):
        return None
