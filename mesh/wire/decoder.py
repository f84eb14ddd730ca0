"""Decodes the requests of peers into messages, by tables for each API and version that are built from kio's field
metadata.

A field that our message lacks is read and dropped. A table is built when it is first needed, which takes some
milliseconds: building all of them would be a third of the start of a process. `check` builds all of them for the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from kio.index import load_request_schema

from mesh.wire.apis import APIS, ApiKey, is_flexible
from mesh.wire.errors import ProtocolError
from mesh.wire.fetch import decode_fetch_request
from mesh.wire.messages import (
    AlterShareGroupOffsetsRequest,
    ApiVersionsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    IncrementalAlterConfigsRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListConfigResourcesRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    ProduceRequest,
    RequestMessage,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
)
from mesh.wire.reader import Cursor
from mesh.wire.schema import FieldType, Pairing, SchemaField, required_fields, schema_fields
from mesh.wire.shapes import OLDER_REQUESTS, older_shape
from mesh.wire.share import decode_share_acknowledge_request, decode_share_fetch_request

Read: TypeAlias = Callable[[Cursor], Any]

_REQUESTS: Final[Mapping[ApiKey, type]] = MappingProxyType(
    {
        ApiKey.PRODUCE: ProduceRequest,
        ApiKey.LIST_OFFSETS: ListOffsetsRequest,
        ApiKey.METADATA: MetadataRequest,
        ApiKey.OFFSET_COMMIT: OffsetCommitRequest,
        ApiKey.OFFSET_FETCH: OffsetFetchRequest,
        ApiKey.FIND_COORDINATOR: FindCoordinatorRequest,
        ApiKey.JOIN_GROUP: JoinGroupRequest,
        ApiKey.HEARTBEAT: HeartbeatRequest,
        ApiKey.LEAVE_GROUP: LeaveGroupRequest,
        ApiKey.SYNC_GROUP: SyncGroupRequest,
        ApiKey.SASL_HANDSHAKE: SaslHandshakeRequest,
        ApiKey.API_VERSIONS: ApiVersionsRequest,
        ApiKey.DESCRIBE_GROUPS: DescribeGroupsRequest,
        ApiKey.LIST_GROUPS: ListGroupsRequest,
        ApiKey.SASL_AUTHENTICATE: SaslAuthenticateRequest,
        ApiKey.DELETE_GROUPS: DeleteGroupsRequest,
        ApiKey.OFFSET_DELETE: OffsetDeleteRequest,
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterRequest,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRequest,
        ApiKey.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeRequest,
        ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatRequest,
        ApiKey.SHARE_GROUP_DESCRIBE: ShareGroupDescribeRequest,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: DescribeShareGroupOffsetsRequest,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: AlterShareGroupOffsetsRequest,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: DeleteShareGroupOffsetsRequest,
        ApiKey.DESCRIBE_CONFIGS: DescribeConfigsRequest,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsRequest,
        ApiKey.LIST_CONFIG_RESOURCES: ListConfigResourcesRequest,
    }
)


def decode_request(api_key: ApiKey, version: int, cursor: Cursor) -> RequestMessage:
    """Decodes the request body at the cursor, in a version of `APIS`. Raises ProtocolError.

    Trailing bytes are ignored, as by a broker. In a Metadata request for all topics, v9 and above, librdkafka (2.16)
    sends three bytes too many: a count of zero in four bytes instead of one.
    """
    match api_key:
        case ApiKey.FETCH:
            return decode_fetch_request(cursor, version)
        case ApiKey.SHARE_FETCH:
            return decode_share_fetch_request(cursor, version)
        case ApiKey.SHARE_ACKNOWLEDGE:
            return decode_share_acknowledge_request(cursor, version)
    table = _table(api_key, version)
    return table.convert(table.read(cursor))


class _Reader(NamedTuple):
    """A reader of one type of value. minimal_size: the fewest bytes of such a value."""

    read: Read
    minimal_size: int


class _Table(NamedTuple):
    read: Read
    convert: Callable[[Any], RequestMessage]


@dataclass(frozen=True, slots=True)
class _StructReader:
    """A reader of one kind of struct. fields: in the order of the encoding; those without a name are dropped."""

    fields: tuple[tuple[str | None, Read], ...]
    is_flexible: bool
    message: Callable[..., Any]

    def __call__(self, cursor: Cursor) -> Any:
        values: dict[str, Any] = {}
        for name, read in self.fields:
            value = read(cursor)
            if name is not None:
                values[name] = value
        if self.is_flexible:
            cursor.skip_tagged_fields()
        return self.message(**values)


@dataclass(frozen=True, slots=True)
class _ArrayReader:
    element: _Reader
    is_flexible: bool
    is_nullable: bool

    def __call__(self, cursor: Cursor) -> tuple[Any, ...] | None:
        read, size = self.element
        count = cursor.compact_count(size) if self.is_flexible else cursor.count(size)
        if count >= 0:
            return tuple([read(cursor) for _ in range(count)])
        if self.is_nullable:
            return None
        raise ProtocolError("invalid_length", f"null instead of an array at {cursor.position}")


_PRIMITIVES: Final[Mapping[str, _Reader]] = MappingProxyType(
    {
        "bool": _Reader(Cursor.boolean, 1),
        "int8": _Reader(Cursor.int8, 1),
        "int16": _Reader(Cursor.int16, 2),
        "int32": _Reader(Cursor.int32, 4),
        "int64": _Reader(Cursor.int64, 8),
        "timedelta_i32": _Reader(Cursor.int32, 4),
        "timedelta_i64": _Reader(Cursor.int64, 8),
        "uuid": _Reader(Cursor.uuid, 16),
    }
)

_STRINGS: Final[Mapping[tuple[bool, bool], _Reader]] = MappingProxyType(
    {
        (False, False): _Reader(Cursor.string, 2),
        (False, True): _Reader(Cursor.nullable_string, 2),
        (True, False): _Reader(Cursor.compact_string, 1),
        (True, True): _Reader(Cursor.compact_nullable_string, 1),
    }
)
"""Readers of strings, by whether they are flexible and nullable."""


class _Builder:
    def __init__(self) -> None:
        self._pairing = Pairing()

    def check(self) -> None:
        self._pairing.check()

    def table(self, api_key: ApiKey, version: int) -> _Table:
        message = _REQUESTS[api_key]
        schema, flexible = load_request_schema(api_key, version), is_flexible(api_key, version)
        older = older_shape(OLDER_REQUESTS, api_key, version)
        if older is None:
            return _Table(self._struct(schema, message, flexible).read, _same)
        return _Table(self._struct(schema, older.message, flexible).read, older.convert)

    def _struct(self, schema: type, message: type | None, flexible: bool) -> _Reader:
        """Makes the reader of a struct. If message is None, the struct is read and dropped."""
        pairs = self._pairing.pair(schema, message) if message else [(field, None) for field in schema_fields(schema)]
        if tagged := [field.message_name for field, _ in pairs if field.is_tagged]:
            raise TypeError(f"{schema} has tagged fields, which tables do not read: {tagged}")
        readers = [self._field(field, ours, flexible) for field, ours in pairs]
        names = [field.message_name if ours else None for field, ours in pairs]
        if message and (missing := required_fields(message) - set(names)):
            raise TypeError(f"{message.__name__} needs defaults for {sorted(missing)}: {schema} has none of them")
        named = tuple(zip(names, (reader.read for reader in readers), strict=True))
        minimal_size = sum(reader.minimal_size for reader in readers) + flexible
        return _Reader(_StructReader(named, flexible, message or _nothing), minimal_size)

    def _field(self, field: SchemaField, ours: FieldType | None, flexible: bool) -> _Reader:
        if ours and (ours.is_array != field.type.is_array or (field.type.is_nullable and not ours.is_nullable)):
            raise TypeError(f"{field.message_name} is {field.type} on the wire and cannot be {ours}")
        if not field.type.is_array:
            return self._value(field, ours, flexible, field.type.is_nullable)
        element = self._value(field, ours, flexible, is_nullable=False)
        return _Reader(_ArrayReader(element, flexible, field.type.is_nullable), 1 if flexible else 4)

    def _value(self, field: SchemaField, ours: FieldType | None, flexible: bool, is_nullable: bool) -> _Reader:
        match field.kafka_type:
            case None:
                return self._struct(field.type.item, ours.item if ours else None, flexible)
            case "string":
                return _STRINGS[flexible, is_nullable]
            case "bytes" if ours is not None:
                read = Cursor.compact_byte_string if flexible else Cursor.byte_string
                return _Reader(read, 1 if flexible else 4)
            case "bytes" | "records":
                skip = Cursor.skip_compact_byte_string if flexible else Cursor.skip_byte_string
                return _Reader(skip, 1 if flexible else 4)
            case kafka_type:
                return _PRIMITIVES[kafka_type]


def _same(message: RequestMessage) -> RequestMessage:
    return message


def _nothing(**_: object) -> None:
    return None


_BUILDER: Final = _Builder()


@cache
def _table(api_key: ApiKey, version: int) -> _Table:
    return _BUILDER.table(api_key, version)


def check() -> None:
    """Builds all tables. Raises TypeError if a message has a field that no version has, or lacks a default that some
    version needs."""
    for api_key in _REQUESTS:
        for version in APIS[api_key].all():
            _table(api_key, version)
    _BUILDER.check()
