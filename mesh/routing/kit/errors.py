"""Makes the answer to a request that failed as a whole, for every relayed API. Each requested entity has the error, as
in `getErrorResponse` of Kafka's requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from mesh.routing.kit.entity_lists import EntityList, entity_lists, error_field
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
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
"""Values that mean "none" in a struct with an error, where Kafka's default is another value."""


def error_answer(api_key: ApiKey, version: int, request: Tree, code: int, message: str | None = None) -> Tree:
    """Returns the answer in which every entity of a request has failed with this error.

    message: the error message, for versions that have a field for it. Fields that are missing in the tree have Kafka's
    defaults.
    """
    failure = ErrorOfApi(api_key, code, message)
    answer = failure.error_fields(top_level_error(api_key, version))
    failure.add_to(answer, entity_lists(api_key, version), request)
    if (by_hand := _BY_HAND.get(api_key)) is not None:
        answer |= by_hand(request, {"error_code": code, "error_message": message})
    if "session_id" in request:
        answer["session_id"] = request["session_id"]
    return answer


@dataclass(frozen=True, slots=True)
class ErrorOfApi:
    """An error, in the form of one API."""

    api_key: ApiKey
    code: int
    message: str | None

    def element(self, each: EntityList, asked: Any) -> Tree:
        """Returns the answer's element with the error for one element of a request."""
        element = {key.answer_field: key.value_of(asked) for key in each.keys} | self.error_fields(each.error)
        if each.inner:
            self.add_to(element, each.inner, asked)
        return element

    def add_to(self, answer: Tree, lists: Sequence[EntityList], asked: Mapping[str, Any]) -> None:
        """Adds the lists of failed elements to an answer, or to one of its elements."""
        for each in lists:
            answer[each.answer_field] = [self.element(each, one) for one in asked.get(each.request_field) or ()]

    def error_fields(self, field: str | None) -> Tree:
        """Returns the error fields of a struct. field: the name of its error code; None if it has no error."""
        if field is None:
            return {}
        return {field: self.code, "error_message": self.message, **_WITHOUT.get(self.api_key, {})}


@cache
def top_level_error(api_key: ApiKey, version: int) -> str | None:
    """Returns the name of the error code of a whole answer, if it has one."""
    return error_field(layout(api_key, version, Direction.RESPONSE))


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
    """Returns the topics of all directories in one list, with the error for each partition."""
    partitions: dict[str, list[Tree]] = {}
    for topic in (topic for directory in request["dirs"] for topic in directory["topics"]):
        failed = [{"partition_index": index, "error_code": error["error_code"]} for index in topic["partitions"]]
        partitions.setdefault(topic["name"], []).extend(failed)
    return {"results": [{"topic_name": name, "partitions": each} for name, each in partitions.items()]}


def _log_directories(request: Tree, error: Tree) -> Tree:
    """Returns the answer of versions without a top-level error code: one directory without a name has the error."""
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
"""The functions that make the answer from a request and an error, for lists that the table of fields does not pair."""
