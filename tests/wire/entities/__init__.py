"""kio's entities as a second opinion: random and fixed ones, their bytes, and their values in the form of our messages.

Nothing here uses the tables under test. kio's reader sees only bytes that this project has written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import count
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from tests.wire.known_to_kio import KNOWN_TO_KIO

ALL_VERSIONS = [(api_key, version) for api_key, versions in APIS.items() for version in versions.all()]
"""Every API in every version: parametrize with it."""

BY_HAND = (ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
BY_TABLES = [(api_key, version) for api_key, version in ALL_VERSIONS if api_key not in BY_HAND]

CLIENT_ID = "consumer-ü"

_texts = st.text(max_size=8)

_PRIMITIVES: Mapping[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda value: timedelta(milliseconds=value)),
    "timedelta_i64": st.integers(-(2**40), 2**40).map(lambda value: timedelta(milliseconds=value)),
    "string": _texts,
    "bytes": st.binary(max_size=8),
    "records": st.binary(max_size=8),
    "uuid": st.uuids().filter(lambda value: value.int != 0),
    "error_code": st.sampled_from(KNOWN_TO_KIO).map(lambda code: KioErrorCode(code.value)),
    "datetime_i64": st.integers(0, 2**32).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    "float64": st.floats(allow_nan=False),
}


def entities(schema: type) -> st.SearchStrategy[Any]:
    """Random instances of a kio class: every field, nulls and tagged ones included, small arrays."""
    hints = get_type_hints(schema)
    return st.builds(schema, **{field.name: _values(field.metadata, hints[field.name]) for field in fields(schema)})


def sample(schema: type, numbers: Iterator[int] | None = None) -> Any:
    """One fixed instance of a kio class: no two numbers alike, two elements in every array, nothing null."""
    numbers = count(1) if numbers is None else numbers
    hints = get_type_hints(schema)
    return schema(**{field.name: _sample(field.metadata, hints[field.name], numbers) for field in fields(schema)})


def encode(entity: Any) -> bytes:
    """The bytes of kio's writer."""
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def decode(schema: type, body: bytes) -> Any:
    """The value of kio's reader, which must reach the last byte."""
    read: Callable[[bytes, int], tuple[Any, int]] = entity_reader(schema)
    entity, size = read(body, 0)
    assert size == len(body)
    return entity


def header_and_body(api_key: ApiKey, version: int, correlation_id: int = 7) -> tuple[bytes, bytes]:
    """A sample request, both parts by kio's writer."""
    schema = load_request_schema(api_key, version)
    header = schema.__header_schema__(
        request_api_key=schema.__api_key__,
        request_api_version=schema.__version__,
        correlation_id=i32(correlation_id),
        client_id=CLIENT_ID,
    )
    return encode(header), encode(sample(schema))


def sample_request(api_key: ApiKey, version: int, correlation_id: int = 7) -> bytes:
    """A sample request without its frame length."""
    return b"".join(header_and_body(api_key, version, correlation_id))


def frame(request: bytes) -> bytes:
    return len(request).to_bytes(4, "big") + request


def values(entity: Any) -> Any:
    """An entity or message as nested dictionaries; durations as milliseconds under a name that ends in `_ms`."""
    if isinstance(entity, tuple):
        return tuple(values(element) for element in entity)
    if not is_dataclass(entity):
        return entity
    named = {field.name: values(getattr(entity, field.name)) for field in fields(entity)}
    return {
        f"{name}_ms" if isinstance(value, timedelta) else name: (
            round(value.total_seconds() * 1000) if isinstance(value, timedelta) else value
        )
        for name, value in named.items()
    }


def build(message: type, given: Mapping[str, Any]) -> Any:
    """Our message out of `values`: it leaves out values without a field, and takes the default for fields without a
    value."""
    hints = get_type_hints(message)
    names = [field.name for field in fields(message) if field.name in given]
    return message(**{name: _built(hints[name], given[name]) for name in names})


def lift(api_key: ApiKey, version: int, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `values` of an older version in the shape of the newest one; requests and responses alike."""
    lift_older, last = _OLDER.get(api_key, (dict, -1))
    return lift_older(given) if version <= last else given


def _lift_metadata(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return given if given["topics"] or "brokers" in given else {"topics": None}


def _lift_join_group(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"rebalance_timeout_ms": given["session_timeout_ms"], **given} if "session_timeout_ms" in given else given


def _lift_find_coordinator(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if "key" in given:
        return {"coordinator_keys": (given["key"],), **given}
    return {"coordinators": ({"key": "", **given},), **given}


def _lift_offset_fetch(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"groups": ({"group_id": "", **given},), **given}


def _lift_leave_group(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"members": ({"member_id": given["member_id"]},), **given} if "member_id" in given else given


_OLDER: Mapping[ApiKey, tuple[Callable[[Mapping[str, Any]], Mapping[str, Any]], int]] = {
    ApiKey.METADATA: (_lift_metadata, 0),
    ApiKey.JOIN_GROUP: (_lift_join_group, 0),
    ApiKey.FIND_COORDINATOR: (_lift_find_coordinator, 3),
    ApiKey.OFFSET_FETCH: (_lift_offset_fetch, 7),
    ApiKey.LEAVE_GROUP: (_lift_leave_group, 2),
}


def _values(metadata: Mapping[str, Any], annotation: Any) -> st.SearchStrategy[Any]:
    item, is_array, is_nullable = unfold(annotation)
    kafka_type = metadata.get("kafka_type")
    if kafka_type == "datetime_i64" and is_nullable:
        return st.none()  # the time of the append, which our messages lack
    drawn = entities(item) if kafka_type is None else _PRIMITIVES[kafka_type]
    if is_array:
        drawn = st.lists(drawn, max_size=3).map(tuple)
    return st.none() | drawn if is_nullable else drawn


def _sample(metadata: Mapping[str, Any], annotation: Any, numbers: Iterator[int]) -> Any:
    item, is_array, _ = unfold(annotation)
    if is_array:
        return tuple(_sample_value(metadata.get("kafka_type"), item, numbers) for _ in range(2))
    return _sample_value(metadata.get("kafka_type"), item, numbers)


def _sample_value(kafka_type: str | None, item: type, numbers: Iterator[int]) -> Any:
    number = next(numbers)
    match kafka_type:
        case None:
            return sample(item, numbers)
        case "string":
            return f"text-{number}"
        case "bytes" | "records":
            return b"bytes-%d" % number
        case "uuid":
            return UUID(int=number)
        case "bool":
            return number % 2 == 0
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=number)
        case "int8":
            return number % 100
        case "datetime_i64":
            return datetime.fromtimestamp(number, UTC)
        case "error_code":
            return KioErrorCode.none
        case _:
            return number


def _built(annotation: Any, value: Any) -> Any:
    item, is_array, _ = unfold(annotation)
    if value is None:
        return None
    if is_array:
        return tuple(_built_value(item, element) for element in value)
    return _built_value(item, value)


def _built_value(item: type, value: Any) -> Any:
    if is_dataclass(item):
        return build(item, value)
    return ErrorCode(value) if item is ErrorCode else value


def unfold(annotation: Any) -> tuple[type, bool, bool]:
    """Unfolds a field's type: the item type, whether it is an array, whether it may be null."""
    is_nullable = isinstance(annotation, UnionType)
    if is_nullable:
        (annotation,) = (argument for argument in get_args(annotation) if argument is not NoneType)
    is_array = get_origin(annotation) is tuple
    return (get_args(annotation)[0] if is_array else annotation), is_array, is_nullable
