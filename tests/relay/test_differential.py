"""Every API in every version that a broker advertises to clients: its answers come through a front unchanged to the
byte, except for addresses and for values that differ between any two answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.integration.jars import missing_programs
from tests.integration.raw import Endpoint
from tests.relay.advertised import OF_4_3, asked, smoke_of_ends
from tests.relay.cluster import SeveralBrokers
from tests.relay.differential import Differential
from tests.relay.front import relayed, tcp_front
from tests.relay.normal import PLACES
from tests.relay.questions import shared
from tests.relay.requests import KEYS
from tests.relay.scripts.refusals import REFUSED, ask_refused, ask_too_new
from tests.relay.volatile import VOLATILE

pytestmark = [pytest.mark.kafka, pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}")]

NOT_PROVOKED = {"share_acknowledge"}
"""It names the leader only after a change between two steps of the broker: before, the broker does not know the
session, afterwards not the partition."""


@pytest.fixture(scope="module")
def differential(cluster: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Differential]:
    with relayed(cluster, tmp_path_factory.mktemp("relay")) as front:
        differential = Differential.before(cluster, shared(cluster), front)
        yield differential
        differential.close()


def test_all_that_is_advertised_is_asked(cluster: SeveralBrokers) -> None:
    answer = cluster.ask(KEYS["api_versions"], 4, client_software_name="kafka-mesh", client_software_version="1.0")
    assert {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys} == OF_4_3


@pytest.mark.parametrize(("api", "version"), smoke_of_ends(asked(OF_4_3)))
def test_answers_come_unchanged(differential: Differential, api: str, version: int) -> None:
    differences = differential.compare(api, version)
    assert not differences, "\n".join(differences)


def test_questions_are_answered(differential: Differential) -> None:
    """All but some random requests, whose mistake a broker cannot name: none is closed for its encoding. Runs before
    the comparison."""
    for api, version in asked(OF_4_3):
        differential.compare(api, version)
    assert differential.closed == {"create_acls", "delete_acls", "describe_acls"}


def test_an_address_that_is_not_changed_is_found(
    cluster: SeveralBrokers, differential: Differential, tmp_path: Path
) -> None:
    """In all places where answers contain addresses; each of these places was requested."""
    elsewhere = {own: Endpoint("elsewhere", own.port) for own in cluster.addresses.values()}
    newest = [
        (api, version) for api, version in asked(OF_4_3) if api in PLACES and (api, version + 1) not in asked(OF_4_3)
    ]
    with tcp_front(cluster, tmp_path) as front:
        unchanged = Differential.before(cluster, differential.first.shared, replace(front, advertised=elsewhere))
        found = {difference.split()[0] for each in newest for difference in unchanged.compare(*each)}
        unchanged.close()
    assert found == PLACES.keys() - NOT_PROVOKED


@pytest.mark.smoke
@pytest.mark.parametrize("what", REFUSED)
def test_connections_are_closed_for_the_same(differential: Differential, what: str) -> None:
    differences = differential.compare_with(f"refused: {what}", partial(ask_refused, what))
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("version", [6, 99])
def test_a_version_of_api_versions_that_is_too_high(differential: Differential, version: int) -> None:
    differences = differential.compare_with(f"too new: {version}", partial(ask_too_new, version=version))
    assert not differences, "\n".join(differences)


def test_what_is_called_volatile_differs(differential: Differential) -> None:
    """Else it would be left out of the comparison without need. A difference in one version is enough."""
    listed = {(api, path) for api, paths in VOLATILE.items() for path in paths}
    for api, version in asked(OF_4_3):
        if api in VOLATILE and not listed.isdisjoint({(api, path) for path in VOLATILE[api]} - differential.seen):
            differential.compare(api, version)
    assert listed <= differential.seen
