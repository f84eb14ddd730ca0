"""Makes kio's requests and responses of plain values, so that one set of values serves every version of an API.

It leaves out fields that a version lacks, so values for older shapes can stand beside those for the newest one. A field
without a value has kio's default, or that of `USUAL`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from datetime import timedelta
from functools import cache
from itertools import count
from typing import Any, Final, get_type_hints

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode

from mesh.wire.apis import ApiKey, has_tagged_response_header
from mesh.wire.errors import ErrorCode
from tests.wire.entities import decode, encode, frame

USUAL: Final[Mapping[str, Any]] = {
    "aborted_transactions": (),
    "committed_leader_epoch": -1,
    "committed_metadata": "",
    "error_code": ErrorCode.NONE,
    "error_message": None,
    "forgotten_topics_data": (),
    "include_authorized_operations": False,
    "include_cluster_authorized_operations": False,
    "include_fenced_brokers": False,
    "include_topic_authorized_operations": False,
    "isolation_level": 0,
    "metadata": "",
    "record_errors": (),
    "replica_id": -1,
    "throttle_time": 0,
    "topic_id": None,
    "topic_partitions": None,
}
"""Values of fields without a default in kio; durations in milliseconds."""


class Conversation:
    """One side of a connection: requests by kio's writer, and answers by its reader."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self._correlation = count(1)
        self._asked: dict[int, tuple[ApiKey, int]] = {}

    def bytes_of(self, api_key: ApiKey, version: int, /, **values: Any) -> bytes:
        """A request in bytes, whose answer this client awaits."""
        correlation = next(self._correlation)
        self._asked[correlation] = (api_key, version)
        return request(api_key, version, correlation, self.client_id, values)

    @property
    def last(self) -> int:
        """The correlation id of the last request."""
        return len(self._asked)

    def answers(self, data: bytes) -> Iterator[tuple[int, Any]]:
        """Correlation ids and answers in these bytes, which contain whole answers."""
        while data:
            length = int.from_bytes(data[:4], "big")
            answer, data = data[4 : 4 + length], data[4 + length :]
            assert len(answer) == length
            correlation = int.from_bytes(answer[:4], "big")
            api_key, version = self._asked[correlation]
            body = answer[4:]
            if has_tagged_response_header(api_key, version):
                assert body[0] == 0
                body = body[1:]
            yield correlation, decode(load_response_schema(api_key, version), body)


def request(api_key: ApiKey, version: int, correlation_id: int, client_id: str, values: Mapping[str, Any]) -> bytes:
    """A whole frame."""
    schema = load_request_schema(api_key, version)
    header = entity(
        schema.__header_schema__,
        {
            "request_api_key": api_key,
            "request_api_version": version,
            "correlation_id": correlation_id,
            "client_id": client_id,
        },
    )
    return frame(encode(header) + encode(entity(schema, values)))


def response(api_key: ApiKey, version: int, /, **values: Any) -> Any:
    """What kio reads from a response with these values."""
    return entity(load_response_schema(api_key, version), values)


def entity(schema: type, values: Mapping[str, Any]) -> Any:
    """An instance of a kio class. Raises KeyError for a value that is needed and not given."""
    hints = _hints(schema)
    arguments = {}
    for field in fields(schema):
        if field.name in values or (field.default is MISSING and field.default_factory is MISSING):
            value = values[field.name] if field.name in values else USUAL[field.name]
            arguments[field.name] = _value(field.metadata.get("kafka_type"), hints[field.name], value)
    return schema(**arguments)


@cache
def _hints(schema: type) -> Mapping[str, Any]:
    return get_type_hints(schema)


def _value(kafka_type: str | None, annotation: Any, value: Any) -> Any:
    if isinstance(value, tuple | list):
        (item,) = (item for item in _arguments(annotation) if item not in (..., type(None)))
        return tuple(_value(kafka_type, item, element) for element in value)
    if isinstance(value, Mapping):
        return entity(annotation, value)
    if value is not None and kafka_type is not None and kafka_type.startswith("timedelta"):
        return timedelta(milliseconds=value)
    return KioErrorCode(value.value) if isinstance(value, ErrorCode) else value


def _arguments(annotation: Any) -> tuple[Any, ...]:
    """The item type of `tuple[X, ...]`, even if it may be null."""
    for part in (annotation, *getattr(annotation, "__args__", ())):
        if getattr(part, "__origin__", None) is tuple:
            return tuple(part.__args__)
    raise TypeError(f"{annotation} is no array")
