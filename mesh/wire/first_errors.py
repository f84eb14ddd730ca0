"""Reads the error of an answer that passes through: the top-level error or that of its first element, if it is near the
beginning.

`_PATHS` has the path to the error, for each API and first version: numbers of bytes, `s` for a string, and `[` for the
first element of an array. The layouts are those of Kafka's messages; a test compares them. Errors of later elements are
not read, since that would need a walk through the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from struct import error as StructError
from types import MappingProxyType
from typing import Final

from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.reader import INT16, INT32
from mesh.wire.spans import Spans

WITHOUT_ERROR: Final = frozenset({ApiKey.METADATA})
"""APIs whose errors come after a list of brokers."""

_BODY: Final = 8
"""The position after the frame's length and the correlation id, where the body or the header's tagged fields begin."""
_ONE_BYTE: Final = 0x80
"""Varints below this value have one byte."""
_TEXT, _ARRAY = -1, -2
_BEHIND_THROTTLE_TIME: Final = ((0, "4"),)
_FROM_1_ON: Final = ((0, ""), (1, "4"))
_AT_ONCE: Final = ((0, ""),)
_FIRST: Final = ((0, "4 ["),)
_FIRST_NAMED: Final = ((0, "4 [ s"),)
_FIRST_PARTITION: Final = ((0, "4 [ s [ 4"),)

_PATHS: Final[Mapping[ApiKey, tuple[tuple[int, str], ...]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: ((3, "[ s [ 4"), (13, "[ 16 [ 4")),
        ApiKey.FETCH: ((4, "4 [ s [ 4"), (7, "4")),
        ApiKey.LIST_OFFSETS: ((1, "[ s [ 4"), (2, "4 [ s [ 4")),
        ApiKey.OFFSET_COMMIT: ((2, "[ s [ 4"), (3, "4 [ s [ 4"), (10, "4 [ 16 [ 4")),
        ApiKey.OFFSET_FETCH: (
            (1, "[ s [ 12 s"),
            (3, "4 [ s [ 12 s"),
            (5, "4 [ s [ 16 s"),
            (8, "4 [ s [ s [ 16 s"),
            (10, "4 [ s [ 16 [ 16 s"),
        ),
        ApiKey.FIND_COORDINATOR: ((0, ""), (1, "4"), (4, "4 [ s 4 s 4")),
        ApiKey.JOIN_GROUP: ((0, ""), (2, "4")),
        ApiKey.HEARTBEAT: _FROM_1_ON,
        ApiKey.LEAVE_GROUP: _FROM_1_ON,
        ApiKey.SYNC_GROUP: _FROM_1_ON,
        ApiKey.LIST_GROUPS: _FROM_1_ON,
        ApiKey.DESCRIBE_GROUPS: ((0, "["), (1, "4 [")),
        ApiKey.SASL_HANDSHAKE: _AT_ONCE,
        ApiKey.SASL_AUTHENTICATE: _AT_ONCE,
        ApiKey.API_VERSIONS: _AT_ONCE,
        ApiKey.CREATE_TOPICS: ((2, "4 [ s"), (7, "4 [ s 16")),
        ApiKey.DELETE_TOPICS: ((1, "4 [ s"), (6, "4 [ s 16")),
        ApiKey.DELETE_RECORDS: ((0, "4 [ s [ 12"),),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: ((2, "4 [ s ["),),
        ApiKey.ADD_PARTITIONS_TO_TXN: ((0, "4 [ s [ 4"), (4, "4")),
        ApiKey.WRITE_TXN_MARKERS: ((1, "[ 8 [ s [ 4"),),
        ApiKey.TXN_OFFSET_COMMIT: ((0, "4 [ s [ 4"), (6, "4 [ 16 [ 4")),
        ApiKey.CREATE_ACLS: _FIRST,
        ApiKey.DELETE_ACLS: _FIRST,
        ApiKey.DESCRIBE_CONFIGS: _FIRST,
        ApiKey.ALTER_CONFIGS: _FIRST,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _FIRST,
        ApiKey.ALTER_CLIENT_QUOTAS: _FIRST,
        ApiKey.DESCRIBE_TRANSACTIONS: _FIRST,
        ApiKey.CONSUMER_GROUP_DESCRIBE: _FIRST,
        ApiKey.SHARE_GROUP_DESCRIBE: _FIRST,
        ApiKey.STREAMS_GROUP_DESCRIBE: _FIRST,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _FIRST,
        ApiKey.DESCRIBE_LOG_DIRS: ((1, "4 ["), (3, "4")),
        ApiKey.CREATE_PARTITIONS: _FIRST_NAMED,
        ApiKey.DELETE_GROUPS: _FIRST_NAMED,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _FIRST_NAMED,
        ApiKey.ALTER_REPLICA_LOG_DIRS: _FIRST_PARTITION,
        ApiKey.DESCRIBE_PRODUCERS: _FIRST_PARTITION,
        ApiKey.ELECT_LEADERS: ((0, "4 [ s [ 4"), (1, "4")),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: ((0, "4"), (1, "5")),
        ApiKey.CREATE_DELEGATION_TOKEN: _AT_ONCE,
        ApiKey.RENEW_DELEGATION_TOKEN: _AT_ONCE,
        ApiKey.EXPIRE_DELEGATION_TOKEN: _AT_ONCE,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: _AT_ONCE,
        ApiKey.OFFSET_DELETE: _AT_ONCE,
        ApiKey.DESCRIBE_QUORUM: _AT_ONCE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ((0, "4 [ s [ s 16 [ 16"), (1, "4 [ s [ s 16 [ 24")),
    }
)
"""The path to the first error. In APIs that are not listed, the error follows throttle_time_ms."""


def path_to_error(api_key: ApiKey, version: int) -> str | None:
    """Returns the path to the error in an answer; None if the error is not read."""
    if api_key in WITHOUT_ERROR:
        return None
    paths = _PATHS.get(api_key, _BEHIND_THROTTLE_TIME)
    return next((path for first, path in reversed(paths) if first <= version), None)


def first_error(api_key: ApiKey, version: int, beginning: memoryview) -> int:
    """Returns the error code; 0 for no error, for an error that is not read, and for one that has not arrived.

    beginning: the first bytes of the frame, with its length.
    """
    path = _compiled(api_key, version)
    if path is None:
        return ErrorCode.NONE
    steps, has_tags, has_varints = path
    at = _BODY
    try:
        if has_tags:
            at = at + 1 if not beginning[at] else _after_tags(beginning)
        place = (_along_varints if has_varints else _along)(beginning, at, steps)
        code: int = INT16.unpack_from(beginning, place)[0] if place is not None else ErrorCode.NONE
    except (IndexError, StructError, ProtocolError):
        return ErrorCode.NONE  # it has not arrived, or the answer is invalid, which other code reports
    return code


@cache
def _compiled(api_key: ApiKey, version: int) -> tuple[tuple[int, ...], bool, bool] | None:
    """Returns the steps (a number of bytes, _TEXT or _ARRAY), whether the header has tagged fields, and whether lengths
    are varints."""
    path = path_to_error(api_key, version)
    if path is None:
        return None
    named = {"s": _TEXT, "[": _ARRAY}
    steps = tuple(named[word] if word in named else int(word) for word in path.split())
    return steps, has_tagged_response_header(api_key, version), is_flexible(api_key, version)


def _along_varints(frame: memoryview, at: int, steps: tuple[int, ...]) -> int | None:
    """Returns the position after the steps; None if an array is empty."""
    for step in steps:
        if step >= 0:
            at += step
            continue
        length = frame[at]
        at += 1
        if length >= _ONE_BYTE:
            spans = Spans(frame, at - 1)
            length, at = spans.unsigned_varint(), spans.position
        if step == _ARRAY:
            if length <= 1:
                return None
        elif length:
            at += length - 1
    return at


def _along(frame: memoryview, at: int, steps: tuple[int, ...]) -> int | None:
    for step in steps:
        if step >= 0:
            at += step
        elif step == _ARRAY:
            if INT32.unpack_from(frame, at)[0] < 1:
                return None
            at += INT32.size
        else:
            at += INT16.size + max(INT16.unpack_from(frame, at)[0], 0)
    return at


def _after_tags(frame: memoryview) -> int:
    header = Spans(frame, _BODY)
    header.skip_tagged_fields()
    return header.position
