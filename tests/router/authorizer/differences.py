"""What a relay with rules says otherwise than a broker with the same ACLs, and means to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.router.authorizer.sides import Told

_ONCE: Final[Mapping[ApiKey, frozenset[int]]] = {
    ApiKey.DELETE_GROUPS: frozenset({ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}),
    ApiKey.OFFSET_DELETE: frozenset({ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
}
"""What can be done once: the second one who asks finds nothing."""


def is_known(api_key: ApiKey, broker: Told, mesh: Told) -> bool:
    ours, theirs = (frozenset(_seen(api_key, told)) for told in (mesh, broker))
    if api_key is ApiKey.SHARE_FETCH and broker == {("", "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)}:
        return True  # a broker with ACLs fails where there is a topic id that it does not know
    if api_key is ApiKey.DELETE_TOPICS:
        # Whether a topic is there that a client may describe and not delete, the mesh does not ask.
        refused, missing = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {(*each[:2], missing if each[2] == refused else each[2]) for each in ours} == {
            (*each[:2], missing if each[2] == refused else each[2]) for each in theirs
        }
    return ours == theirs


def _seen(api_key: ApiKey, told: Told) -> Told:
    once = _ONCE.get(api_key, frozenset())
    return {(about, key, 0 if code in once else code) for about, key, code in told}
