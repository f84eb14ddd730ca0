"""What unauthorized clients are answered at one address for all brokers, compared with a broker with the same ACLs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.routing.one_node.one_node_apis import SERVED_BY_ONE_NODE
from mesh.wire.apis import ApiKey
from tests.integration.jars import missing_programs
from tests.router.authorizer.bed import ASKED, Sides, opened
from tests.router.authorizer.differences import differences
from tests.router.authorizer.rules import USERS

pytestmark = [
    pytest.mark.long,
    pytest.mark.deep,
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("rules of one node"),
]
HERE = [each for each in ASKED if each in SERVED_BY_ONE_NODE]
NAME_BROKERS = {ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}
"""Requests that name a broker among other things. Here the whole request gets an error: see `told.refusal`."""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with opened(tmp_path_factory.mktemp("rules"), is_one_node=True) as made:
        yield made


def test_all_that_rules_know_is_asked(sides: Sides) -> None:
    assert [*sides.versions] == HERE


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("api_key", [each for each in HERE if each not in NAME_BROKERS], ids=lambda each: each.name)
def test_errors_are_a_brokers(sides: Sides, api_key: ApiKey, user: str) -> None:
    found = differences(sides, api_key, user)
    assert not found, "\n".join(found)
