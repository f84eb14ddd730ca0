"""Writes responses through kio's response classes and its writer: tables, one per API and version, built once.

Fields that a version lacks are left out; fields that it has and we lack take kio's default. A table that cannot be
built is an error when this module is imported.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
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
    DescribeClusterResponse,
    DescribeGroupsResponse,
    DescribeShareGroupOffsetsResponse,
    FetchResponse,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
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
    }
)

_BY_HAND: Final = frozenset({FetchResponse, ShareFetchResponse, ShareAcknowledgeResponse})


def encode_response(api_key: ApiKey, version: int, response: ResponseMessage) -> list[Buffer]:
    """The body of a response in a version of `APIS`, in pieces.

    Raises TypeError for the response of another API, ValueError for a value that the version has no room for.
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
        table = _TABLES[api_key, version]
        body = BytesIO()
        table.write(body, table.convert(response))
    except (struct.error, SerialError) as error:
        raise ValueError(f"{api_key.name} v{version} cannot carry {type(response).__name__}: {error}") from error
    return [body.getvalue()]


class _Table(NamedTuple):
    """convert: our response to kio's."""

    convert: Convert
    write: Callable[[IO[bytes], Any], None]


@dataclass(frozen=True, slots=True)
class _StructConverter:
    """fields: kio's name, ours, and the conversion of the value, of all fields that we have."""

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

    def tables(self) -> Mapping[tuple[ApiKey, int], _Table]:
        tables = {
            (api_key, version): self._table(api_key, version, message)
            for api_key, message in _RESPONSES.items()
            for version in APIS[api_key].all()
            if message not in _BY_HAND
        }
        self._pairing.check()
        return MappingProxyType(tables)

    def _table(self, api_key: ApiKey, version: int, message: type) -> _Table:
        schema = load_response_schema(api_key, version)
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
    # What brokers send where an older version has no null: MetadataResponse.name, JoinGroupResponse.protocol_name.
    return text or ""


_TABLES: Final = _Builder().tables()
