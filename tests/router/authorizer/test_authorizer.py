"""What unauthorized clients are answered, API by API and version by version, by a relay with rules and by a broker with
the same ACLs."""

from __future__ import annotations

import pytest

from mesh.routing.guards.table import GUARDS
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.integration.jars import missing_programs
from tests.router.authorizer.bed import ASKED, Sides
from tests.router.authorizer.differences import differences
from tests.router.authorizer.rules import MINE, USERS

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.smoke,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("authorizer"),  # one broker and one mesh for all of them
]


def test_what_is_advertised_has_a_guard(sides: Sides) -> None:
    answer = sides.clients["mesh", "nobody"].ask(ApiKey.API_VERSIONS, 0, {})
    assert answer is not None
    assert {each["api_key"] for each in answer["api_keys"]} <= set(GUARDS)
    assert list(sides.versions) == ASKED, "both serve them"


@pytest.mark.parametrize("api_key", ASKED, ids=lambda each: each.name)
def test_errors_are_a_brokers(sides: Sides, api_key: ApiKey) -> None:
    differing = [f"{user}: {each}" for user in USERS for each in differences(sides, api_key, user)]
    assert not differing, "\n".join(differing)


def test_users_that_may_find_share_coordinators(sides: Sides) -> None:
    """Brokers ask for them. Their keys name a partition of a group."""
    request = {"key_type": 2, "coordinator_keys": [f"{MINE}:{sides.questions.ids[MINE]}:0"]}

    def is_refused(side: str, user: str) -> bool:
        answer = sides.clients[side, user].ask(ApiKey.FIND_COORDINATOR, 6, request)
        assert answer is not None
        (found,) = answer["coordinators"]
        return bool(found["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    mesh, broker = ({user: is_refused(side, user) for user in USERS} for side in ("mesh", "broker"))
    assert mesh == broker
    assert any(mesh.values())
