"""Every key of the process, of clusters, routers and interceptors changes, there and back, in front of real brokers,
under traffic: no client stands, and none loses a record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.kafka import KafkaCluster
from tests.integration.keys_under_traffic import bed_of, change_all
from tests.router.pass_through import install_pass_through

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("part", ("process", "clusters", "routers"))
def test_all_clients_go_on(
    kafka_pair: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    install_pass_through(tmp_path, monkeypatch)
    with bed_of(part, kafka_pair, tmp_path) as bed:
        assert change_all(bed, part) == []
