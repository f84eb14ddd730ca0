"""What clients are told who may not, API by API and version by version: by a relay with rules, and by a broker with the
same ACLs."""

from __future__ import annotations

import pytest

from mesh.routing.guards.table import GUARDS
from mesh.wire.apis import ApiKey
from tests.integration.jars import missing_programs
from tests.router.authorizer.bed import ASKED, Sides
from tests.router.authorizer.differences import is_known
from tests.router.authorizer.requests import SELECTIONS
from tests.router.authorizer.rules import USERS
from tests.router.authorizer.sides import told

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("authorizer"),  # one broker and one mesh for all of them
]

ATTEMPTS = 20
"""Of a question that is answered differently: a coordinator loads, or a transaction is still being ended."""


def test_what_is_advertised_has_a_guard(sides: Sides) -> None:
    answer = sides.clients["mesh", "nobody"].ask(ApiKey.API_VERSIONS, 0, {})
    assert answer is not None
    assert {each["api_key"] for each in answer["api_keys"]} <= set(GUARDS)
    assert list(sides.versions) == ASKED, "both serve them"


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("api_key", ASKED, ids=lambda each: each.name)
def test_errors_are_a_brokers(sides: Sides, api_key: ApiKey, user: str) -> None:
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
    assert not differing, "\n".join(differing)
