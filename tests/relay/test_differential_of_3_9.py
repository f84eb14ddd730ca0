"""The same comparison with brokers of Kafka 3.9, with KRaft."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.jars import kafka_jars, missing_programs
from tests.relay.advertised import asked
from tests.relay.advertised_earlier import OF_3_9
from tests.relay.cluster import SeveralBrokers
from tests.relay.differential import Differential
from tests.relay.front import relayed
from tests.relay.questions import PROPERTIES, shared

pytestmark = [
    pytest.mark.long,
    pytest.mark.deep,
    pytest.mark.kafka,
    pytest.mark.xdist_group("differential of 3.9"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]

NEW_PROTOCOL = {"group.coordinator.rebalance.protocols": "classic,consumer"}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    cluster = SeveralBrokers(
        "eu", kafka_jars("3.9.1"), tmp_path_factory.mktemp("old"), more={**PROPERTIES, **NEW_PROTOCOL}
    )
    yield cluster
    cluster.end()


@pytest.fixture(scope="module")
def differential(old: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Differential]:
    with relayed(old, tmp_path_factory.mktemp("relay")) as front:
        differential = Differential.before(old, shared(old), front)
        yield differential
        differential.close()


def test_all_that_is_advertised_is_asked(old: SeveralBrokers) -> None:
    assert old.versions == OF_3_9


@pytest.mark.parametrize(("api", "version"), asked(OF_3_9), ids=str)
def test_answers_come_unchanged(differential: Differential, api: str, version: int) -> None:
    differences = differential.compare(api, version)
    assert not differences, "\n".join(differences)
