"""The answer to a request that failed as a whole, of every relayed API: each entity that was asked about is in it, with
the error, as brokers say it (`getErrorResponse` of Kafka's requests)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from mesh.routing.kit.entity_lists import EntityList, entity_lists, error_field
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.entities.layouts import layout
from mesh.wire.trees import Tree

_WITHOUT: Final[Mapping[ApiKey, Mapping[str, Any]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: {"base_offset": -1},
        ApiKey.FETCH: {"high_watermark": -1},
        ApiKey.OFFSET_FETCH: {"committed_offset": -1},
        ApiKey.FIND_COORDINATOR: {"node_id": -1, "host": "", "port": -1},
        ApiKey.JOIN_GROUP: {"protocol_name": None},
        ApiKey.DELETE_RECORDS: {"low_watermark": -1},
        ApiKey.INIT_PRODUCER_ID: {"producer_id": -1, "producer_epoch": -1},
        ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entries": None},
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: {"start_offset": -1},
    }
)
"""What a struct with an error says that there is none of, where Kafka's default says something else."""


def error_answer(api_key: ApiKey, version: int, request: Tree, code: int, message: str | None = None) -> Tree:
    """The answer of this version in which everything that the request asks about has failed so.

    message: for people, where the version has a place for it. What the tree lacks has Kafka's default.
    """
    failure = Failure(api_key, code, message)
    answer = failure.said_in(top_level_error(api_key, version))
    failure.add_to(answer, entity_lists(api_key, version), request)
    if (by_hand := _BY_HAND.get(api_key)) is not None:
        answer |= by_hand(request, {"error_code": code, "error_message": message})
    if "session_id" in request:
        answer["session_id"] = request["session_id"]
    return answer


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, as one API says it."""

    api_key: ApiKey
    code: int
    message: str | None

    def element(self, each: EntityList, asked: Any) -> Tree:
        """The element of an answer to one of a request."""
        element = {key.answered: key.value_of(asked) for key in each.keys} | self.said_in(each.error)
        if each.inner:
            self.add_to(element, each.inner, asked)
        return element

    def add_to(self, answer: Tree, lists: Sequence[EntityList], asked: Mapping[str, Any]) -> None:
        """Puts the lists of elements into an answer, or into one of its elements."""
        for each in lists:
            answer[each.answered] = [self.element(each, one) for one in asked.get(each.asked) or ()]

    def said_in(self, field: str | None) -> Tree:
        """Of a struct whose error code has this name; None: it has none."""
        if field is None:
            return {}
        return {field: self.code, "error_message": self.message, **_WITHOUT.get(self.api_key, {})}


@cache
def top_level_error(api_key: ApiKey, version: int) -> str | None:
    """The name of the error code of a whole answer, if it has one."""
    return error_field(layout(api_key, version, Side.RESPONSE))


def _created_acls(request: Tree, error: Tree) -> Tree:
    return {"results": [{**error} for _ in request["creations"]]}


def _acl_filters(request: Tree, error: Tree) -> Tree:
    return {"filter_results": [{**error} for _ in request["filters"]]}


def _quotas(request: Tree, error: Tree) -> Tree:
    return {"entries": [{**error, "entity": each["entity"]} for each in request["entries"]]}


def _described_users(request: Tree, error: Tree) -> Tree:
    return {"results": [{**error, "user": each["name"]} for each in request["users"] or ()]}


def _altered_users(request: Tree, error: Tree) -> Tree:
    names = dict.fromkeys(each["name"] for each in (*request["deletions"], *request["upsertions"]))
    return {"results": [{**error, "user": name} for name in names]}


def _moved_replicas(request: Tree, error: Tree) -> Tree:
    """The topics of all directories together."""
    partitions: dict[str, list[Tree]] = {}
    for topic in (topic for directory in request["dirs"] for topic in directory["topics"]):
        failed = [{"partition_index": index, "error_code": error["error_code"]} for index in topic["partitions"]]
        partitions.setdefault(topic["name"], []).extend(failed)
    return {"results": [{"topic_name": name, "partitions": each} for name, each in partitions.items()]}


def _log_directories(request: Tree, error: Tree) -> Tree:
    """Older versions have no error of their own: it is said of a directory without a name."""
    return {"results": [{**error}]}


_BY_HAND: Final[Mapping[ApiKey, Callable[[Tree, Tree], Tree]]] = MappingProxyType(
    {
        ApiKey.CREATE_ACLS: _created_acls,
        ApiKey.DELETE_ACLS: _acl_filters,
        ApiKey.ALTER_REPLICA_LOG_DIRS: _moved_replicas,
        ApiKey.DESCRIBE_LOG_DIRS: _log_directories,
        ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _described_users,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _altered_users,
    }
)
"""Lists that the table of fields does not pair: with the request and with an error, what of the answer they are."""
