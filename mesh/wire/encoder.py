"""Encodes responses with kio's response classes and its writer, by tables for each API and version.

Fields that a version lacks are left out; fields that our messages lack get kio's default. A table is built when it is
first needed, as in the decoder.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from io import BytesIO
from types import MappingProxyType
from typing import IO, Any, Final, NamedTuple, TypeAlias

from kio.index import load_response_schema
from kio.serial import entity_writer
from kio.serial.errors import SerialError

from mesh.wire.apis import APIS, ApiKey
from mesh.wire.fetch import encode_fetch_response
from mesh.wire.messages import (
    AlterShareGroupOffsetsResponse,
    ApiVersionsResponse,
    Buffer,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsResponse,
    DeleteShareGroupOffsetsResponse,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    DescribeShareGroupOffsetsResponse,
    FetchResponse,
    FindCoordinatorResponse,
    HeartbeatResponse,
    IncrementalAlterConfigsResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListConfigResourcesResponse,
    ListGroupsResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    ProduceResponse,
    ResponseMessage,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
    ShareAcknowledgeResponse,
    ShareFetchResponse,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatResponse,
    SyncGroupResponse,
)
from mesh.wire.schema import FieldType, Pairing, SchemaField
from mesh.wire.shapes import OLDER_RESPONSES, older_shape
from mesh.wire.share import encode_share_acknowledge_response, encode_share_fetch_response

Convert: TypeAlias = Callable[[Any], Any]

_RESPONSES: Final[Mapping[ApiKey, type]] = MappingProxyType(
    {
        ApiKey.PRODUCE: ProduceResponse,
        ApiKey.FETCH: FetchResponse,
        ApiKey.LIST_OFFSETS: ListOffsetsResponse,
        ApiKey.METADATA: MetadataResponse,
        ApiKey.OFFSET_COMMIT: OffsetCommitResponse,
        ApiKey.OFFSET_FETCH: OffsetFetchResponse,
        ApiKey.FIND_COORDINATOR: FindCoordinatorResponse,
        ApiKey.JOIN_GROUP: JoinGroupResponse,
        ApiKey.HEARTBEAT: HeartbeatResponse,
        ApiKey.LEAVE_GROUP: LeaveGroupResponse,
        ApiKey.SYNC_GROUP: SyncGroupResponse,
        ApiKey.SASL_HANDSHAKE: SaslHandshakeResponse,
        ApiKey.API_VERSIONS: ApiVersionsResponse,
        ApiKey.DESCRIBE_GROUPS: DescribeGroupsResponse,
        ApiKey.LIST_GROUPS: ListGroupsResponse,
        ApiKey.SASL_AUTHENTICATE: SaslAuthenticateResponse,
        ApiKey.DELETE_GROUPS: DeleteGroupsResponse,
        ApiKey.OFFSET_DELETE: OffsetDeleteResponse,
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterResponse,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatResponse,
        ApiKey.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeResponse,
        ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatResponse,
        ApiKey.SHARE_FETCH: ShareFetchResponse,
        ApiKey.SHARE_ACKNOWLEDGE: ShareAcknowledgeResponse,
        ApiKey.SHARE_GROUP_DESCRIBE: ShareGroupDescribeResponse,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: DescribeShareGroupOffsetsResponse,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: AlterShareGroupOffsetsResponse,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: DeleteShareGroupOffsetsResponse,
        ApiKey.DESCRIBE_CONFIGS: DescribeConfigsResponse,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsResponse,
        ApiKey.LIST_CONFIG_RESOURCES: ListConfigResourcesResponse,
    }
)

_BY_HAND: Final = frozenset({FetchResponse, ShareFetchResponse, ShareAcknowledgeResponse})


def encode_response(api_key: ApiKey, version: int, response: ResponseMessage) -> list[Buffer]:
    """Encodes a response body in a version of `APIS`, in pieces.

    Raises TypeError for a response of another API, ValueError for a value that the version cannot encode.
    """
    if type(response) is not _RESPONSES[api_key]:
        raise TypeError(f"a {type(response).__name__} does not answer {api_key.name}")
    try:
        match response:
            case FetchResponse():
                return encode_fetch_response(response, version)
            case ShareFetchResponse():
                return encode_share_fetch_response(response)
            case ShareAcknowledgeResponse():
                return encode_share_acknowledge_response(response, version)
        table = _table(api_key, version)
        body = BytesIO()
        table.write(body, table.convert(response))
    except (struct.error, SerialError) as error:
        raise ValueError(f"{api_key.name} v{version} cannot carry {type(response).__name__}: {error}") from error
    return [body.getvalue()]


class _Table(NamedTuple):
    """The conversion of one response to kio's class, and the writer of that class."""

    convert: Convert
    write: Callable[[IO[bytes], Any], None]


@dataclass(frozen=True, slots=True)
class _StructConverter:
    """The conversion of one kind of struct to kio's class. fields: for each field of our message, kio's name, our name,
    and the conversion of the value."""

    fields: tuple[tuple[str, str, Convert | None], ...]
    schema: Callable[..., Any]

    def __call__(self, message: Any) -> Any:
        values = {}
        for name, message_name, convert in self.fields:
            value = getattr(message, message_name)
            values[name] = convert(value) if convert else value
        return self.schema(**values)


class _Builder:
    def __init__(self) -> None:
        self._pairing = Pairing()

    def check(self) -> None:
        self._pairing.check()

    def table(self, api_key: ApiKey, version: int) -> _Table:
        message, schema = _RESPONSES[api_key], load_response_schema(api_key, version)
        older = older_shape(OLDER_RESPONSES, api_key, version)
        if older is None:
            return _Table(self._struct(schema, message), entity_writer(schema))
        return _Table(_chain(older.convert, self._struct(schema, older.message)), entity_writer(schema))

    def _struct(self, schema: type, message: type) -> Convert:
        pairs = self._pairing.pair(schema, message)
        if missing := [field.name for field, ours in pairs if ours is None and field.is_required]:
            raise TypeError(f"{message.__name__} needs {missing} for {schema}")
        fields = tuple(
            (field.name, field.message_name, self._field(field, ours)) for field, ours in pairs if ours is not None
        )
        return _StructConverter(fields, schema)

    def _field(self, field: SchemaField, ours: FieldType) -> Convert | None:
        if field.type.is_array != ours.is_array:
            raise TypeError(f"{field.message_name} is {field.type} on the wire and cannot be {ours}")
        if field.kafka_type is None:
            convert = self._struct(field.type.item, ours.item)
            if ours.is_array:
                return _each(convert)
            return _unless_null(convert) if ours.is_nullable else convert
        if field.kafka_type in ("timedelta_i32", "timedelta_i64"):
            return _duration
        if field.kafka_type == "string" and ours.is_nullable and not field.type.is_nullable:
            return _never_null
        return None


def _chain(first: Convert, second: Convert) -> Convert:
    return lambda value: second(first(value))


def _each(convert: Convert) -> Convert:
    return lambda values: tuple([convert(value) for value in values])


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _duration(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


def _never_null(text: str | None) -> str:
    # Older versions have no null here; brokers send "" (MetadataResponse.name, JoinGroupResponse.protocol_name).
    return text or ""


_BUILDER: Final = _Builder()


@cache
def _table(api_key: ApiKey, version: int) -> _Table:
    return _BUILDER.table(api_key, version)


def check() -> None:
    """Builds all tables. Raises TypeError if a message has a field that no version has, or lacks a field that some
    version needs."""
    for api_key, message in _RESPONSES.items():
        if message not in _BY_HAND:
            for version in APIS[api_key].all():
                _table(api_key, version)
    _BUILDER.check()
