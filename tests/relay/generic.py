"""Generic requests of any API: empty, with unknown names, and random."""

from __future__ import annotations

import random
from dataclasses import Field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, get_type_hints
from uuid import UUID

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from tests.relay.requests import KEYS, entity, item, request_of
from tests.relay.sides import Side
from tests.wire.entities import unfold

_RANDOM_ONES = 3

_ALWAYS: Final[dict[str, Any]] = {
    "replica_id": -1,  # a consumer: a follower's Fetch moves the high watermark
    "acks": -1,  # 0 has no answer
    "broker_id": 77,  # UnregisterBroker would remove a broker
    "voter_id": 77,  # RemoveRaftVoter would remove the controller
    "timeout": 10_000,  # a busy machine must not change the answer
}
"""Values that prevent harm, or a missing answer."""
_NEVER_EMPTY: Final = {"add_partitions_to_txn": "transactions", "offset_fetch": "groups"}
"""By API: a broker of 4.3.1 never answers the first without any, one of 3.9.1 the second."""
_NEVER_NULL: Final = {"elect_leaders": "topic_partitions"}
"""A broker of 2.8.2 never answers an unknown election type for all partitions."""
_DEFAULT: Final = frozenset({"replica_state"})  # like replica_id
_LEAVES_TRACES: Final = frozenset({"init_producer_id", "create_acls", "alter_user_scram_credentials", "create_topics"})
"""APIs whose effects the other side would see: each side has its own names for them. For other APIs names are equal,
because the order of an answer often follows their hashes; so each request has only one own name."""


def ask_generic(side: Side, api: str, version: int) -> None:
    """Sends all generic requests of one API in one version."""
    schema = load_request_schema(KEYS[api], version)
    least = _ALWAYS | ({_NEVER_EMPTY[api]: [{}]} if api in _NEVER_EMPTY else {})
    side.ask_bytes(api, version, request_of(entity(schema, least), side.correlation_id))
    for number in range(_RANDOM_ONES):
        filled = _Filled(side, api, random.Random(f"{api} {version} {number}"), is_full=not number).value(schema)
        side.ask_bytes(api, version, request_of(filled, side.correlation_id), given={"filled": filled})


class _Filled:
    """Fills every field; is_full: nothing is null, and every array has two elements."""

    def __init__(self, side: Side, api: str, chance: random.Random, is_full: bool) -> None:
        self._side = side
        self._api = api
        self._chance = chance
        self._is_full = is_full

    def value(self, schema: type) -> Any:
        """An instance of one of kio's classes."""
        hints = get_type_hints(schema)
        values = {}
        for each in fields(schema):
            if each.name in _ALWAYS:
                kafka_type = each.metadata.get("kafka_type")
                values[each.name] = item(kafka_type, schema, _ALWAYS[each.name])
            elif each.name not in _DEFAULT:
                values[each.name] = self._field(each, hints[each.name])
        return schema(**values)

    def _field(self, field: Field[Any], annotation: Any) -> Any:
        kafka_type = field.metadata.get("kafka_type")
        schema, is_array, is_nullable = unfold(annotation)
        # A broker of 4.3.1 never answers null records: see the script for Produce.
        may_be_null = is_nullable and not self._is_full and kafka_type != "records"
        may_be_null = may_be_null and field.name != _NEVER_NULL.get(self._api)
        if may_be_null and self._chance.random() < 0.3:
            return None
        if is_array:
            length = 2 if self._is_full else self._chance.randrange(field.name == _NEVER_EMPTY.get(self._api), 3)
            length = 1 if self._api in _LEAVES_TRACES else length
            return tuple(self._one(kafka_type, schema) for _ in range(length))
        return self._one(kafka_type, schema)

    def _one(self, kafka_type: str | None, schema: type) -> Any:
        chance = self._chance
        match kafka_type:
            case None:
                return self.value(schema)
            case "string":
                text = f"text{chance.randrange(100)}"
                return self._side.name(text) if self._api in _LEAVES_TRACES else text
            case "bytes" | "records":
                return chance.randbytes(chance.randrange(12))
            case "uuid":
                return UUID(int=chance.getrandbits(128) | 1)
            case "bool":
                return chance.random() < 0.5
            case "timedelta_i32" | "timedelta_i64":
                return timedelta(milliseconds=chance.randrange(50))
            case "datetime_i64":
                return datetime.fromtimestamp(chance.randrange(10**9), UTC)
            case "error_code":
                return ErrorCode.none
            case "float64":
                return float(chance.randrange(10))
            case "uint16":
                return chance.randrange(2**16)
            case _:
                return chance.choice((-1, 0, 1, 2, chance.randrange(100)))
