"""The same comparison with the newest brokers: the APIs that others lack; in the long run all the rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.jars import NEWEST_BROKERS, kafka_jars, missing_programs
from tests.relay.advertised import OF_4_3, OF_4_4, asked
from tests.relay.cluster import SeveralBrokers
from tests.relay.differential import Differential
from tests.relay.front import relayed
from tests.relay.questions import PROPERTIES, shared
from tests.relay.requests import KEYS, KNOWN
from tests.relay.scripts.newer import NEWER

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.xdist_group("differential of the newest"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]

NEW = [each for each in asked(OF_4_4) if each not in asked(OF_4_3)]


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    cluster = SeveralBrokers("eu", kafka_jars(NEWEST_BROKERS), tmp_path_factory.mktemp("newest"), more=PROPERTIES)
    yield cluster
    cluster.end()


@pytest.fixture(scope="module")
def differential(newest: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Differential]:
    with relayed(newest, tmp_path_factory.mktemp("relay")) as front:
        differential = Differential.before(newest, shared(newest), front)
        yield differential
        differential.close()


def test_all_that_is_advertised_is_asked(newest: SeveralBrokers) -> None:
    answer = newest.ask(KEYS["api_versions"], 4, client_software_name="kafka-mesh", client_software_version="1.0")
    assert {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys} == OF_4_4


def test_what_kio_lacks_is_written_by_hand() -> None:
    assert {each for each in NEW if each[1] not in KNOWN.get(each[0], ())} == set(NEW) == NEWER.keys()


@pytest.mark.parametrize(("api", "version"), NEW, ids=str)
def test_what_is_new_comes_unchanged(differential: Differential, api: str, version: int) -> None:
    differences = differential.compare(api, version)
    assert not differences, "\n".join(differences)


@pytest.mark.deep
@pytest.mark.parametrize(("api", "version"), asked(OF_4_3), ids=str)
def test_what_is_older_comes_unchanged(differential: Differential, api: str, version: int) -> None:
    differences = differential.compare(api, version)
    assert not differences, "\n".join(differences)
