"""Every API that a mesh with rules advertises has a guard."""

from __future__ import annotations

import pytest

from mesh.routing.guards.judging import judge
from mesh.routing.guards.metadata import judged_metadata
from mesh.routing.guards.table import GUARDS
from mesh.routing.kit.union_apis import SERVED_BY_UNIONS
from mesh.security.principals import ANONYMOUS
from mesh.security.rules import Rules
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import read_tree, write_tree
from tests.routing.guards.requests import NobodyKnows, full

OPEN = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}
"""APIs for which Kafka demands no permission."""
NARROWED = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_CLUSTER}
"""APIs open to all clients; the answer is limited to what the client may see."""


def test_every_api_that_is_served_has_a_guard() -> None:
    assert set(GUARDS) == set(SERVED_BY_UNIONS)


@pytest.mark.parametrize("api_key", sorted(set(SERVED_BY_UNIONS) - OPEN), ids=lambda each: each.name)
def test_nothing_passes_for_a_principal_without_a_rule(api_key: ApiKey) -> None:
    """In every version, full of names: each entity is refused."""
    nobody = Rules().access(ANONYMOUS, "10.0.0.1")
    for version in SERVED_BY_UNIONS[api_key].all():
        request = full(api_key, version)
        if api_key is ApiKey.METADATA:
            metadata = judged_metadata(request, version, nobody, NobodyKnows())
            assert len(metadata.refused) == len(request["topics"])
            continue
        judgement = judge(api_key, version, request, nobody, NobodyKnows())
        assert judgement is not None, f"v{version} passes"
        if api_key in NARROWED:
            assert judgement.complete is not None
            continue
        assert judgement.request is None
        assert judgement.refused is not None and judgement.refusals, f"v{version}"
        told = write_tree(api_key, version, Direction.RESPONSE, judgement.refused)
        assert _codes(read_tree(api_key, version, Direction.RESPONSE, told)) or version < _FIRST_WITH_CODES.get(
            api_key, 0
        )


_FIRST_WITH_CODES = {ApiKey.DESCRIBE_LOG_DIRS: 3}


def _codes(tree: object) -> set[int]:
    """All error codes in a message except 0."""
    match tree:
        case dict():
            found = {value for key, value in tree.items() if key.endswith("error_code") and value}
            return found.union(*map(_codes, tree.values()))
        case list():
            return set().union(*map(_codes, tree))
        case _:
            return set()
