"""The same comparison with brokers of Kafka 2.8, with ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.jars import missing_programs
from tests.integration.old_kafka import OldKafkaCluster, ZooKeeper
from tests.relay.advertised import asked, ends_first
from tests.relay.advertised_earlier import OF_2_8
from tests.relay.cluster import SeveralBrokers
from tests.relay.differential import Differential
from tests.relay.front import relayed
from tests.relay.questions import PROPERTIES, shared

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.xdist_group("differential of 2.8"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]

RULES = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
CONTROLLER = 1
"""The first node. With ZooKeeper no broker passes the controller's requests on."""


class SeveralOldBrokers(OldKafkaCluster, SeveralBrokers):
    """Brokers with ZooKeeper."""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    folder = tmp_path_factory.mktemp("old")
    zookeeper = ZooKeeper("2.8.2", folder / "zookeeper")
    cluster = SeveralOldBrokers("eu", zookeeper, folder / "kafka", {**PROPERTIES, **RULES})
    yield cluster
    cluster.end()
    zookeeper.kill()


@pytest.fixture(scope="module")
def differential(old: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Differential]:
    with relayed(old, tmp_path_factory.mktemp("relay")) as front:
        differential = Differential.before(old, shared(old, CONTROLLER), front)
        yield differential
        differential.close()


def test_all_that_is_advertised_is_asked(old: SeveralBrokers) -> None:
    assert old.versions == OF_2_8


@pytest.mark.parametrize(("api", "version"), ends_first(asked(OF_2_8)))
def test_answers_come_unchanged(differential: Differential, api: str, version: int) -> None:
    differences = differential.compare(api, version)
    assert not differences, "\n".join(differences)
