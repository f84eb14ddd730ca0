"""Intended differences between a relay with rules and a broker with the same ACLs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.router.authorizer.bed import Sides
from tests.router.authorizer.requests import SELECTIONS
from tests.router.authorizer.sides import Told, told

_ONCE: Final[Mapping[ApiKey, frozenset[int]]] = {
    ApiKey.DELETE_GROUPS: frozenset({ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}),
    ApiKey.OFFSET_DELETE: frozenset({ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
}
"""APIs that succeed once: the second caller finds nothing to do."""


ATTEMPTS: Final = 20
"""Attempts while answers differ: a coordinator loads, or a transaction is still ending."""


def differences(sides: Sides, api_key: ApiKey, user: str) -> list[str]:
    """The unintended differences between a broker's and a mesh's answers to a user, for each version and selection."""
    differing = []
    for version in sides.versions[api_key]:
        for selection in SELECTIONS:
            for _ in range(ATTEMPTS):
                said = {}
                for where in ("broker", "mesh"):
                    request = sides.questions.request(api_key, version, selection, f"{where}-{user}")
                    if request is not None:
                        said[where] = told(sides.clients[where, user].ask(api_key, version, request))
                if not said or said["broker"] == said["mesh"] or is_known(api_key, **said):
                    break
            else:
                broker, mesh = said["broker"] - said["mesh"], said["mesh"] - said["broker"]
                differing.append(f"v{version}, {selection.name}: broker {sorted(broker)}, mesh {sorted(mesh)}")
    return differing


def is_known(api_key: ApiKey, broker: Told, mesh: Told) -> bool:
    ours, theirs = (frozenset(_seen(api_key, said)) for said in (mesh, broker))
    if api_key is ApiKey.SHARE_FETCH and broker == {("", "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)}:
        return True  # a broker with ACLs fails for an unknown topic id
    if api_key is ApiKey.DELETE_TOPICS:
        # The mesh does not check whether a topic exists that a client may describe and not delete.
        refused, missing = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {(*each[:2], missing if each[2] == refused else each[2]) for each in ours} == {
            (*each[:2], missing if each[2] == refused else each[2]) for each in theirs
        }
    return ours == theirs


def _seen(api_key: ApiKey, said: Told) -> Told:
    once = _ONCE.get(api_key, frozenset())
    return {(about, key, 0 if code in once else code) for about, key, code in said}
