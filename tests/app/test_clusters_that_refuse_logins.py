"""A cluster that accepts no login of the mesh's own connections is a problem of the whole cluster."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from mesh.app.clusters import UpstreamClusters
from mesh.config.model import Config
from mesh.records.spans import ClusterName
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.links.logins import LoginRefusal
from mesh.upstream.problems import UpstreamProblem

EU = ClusterName("eu")
RELAY = {"name": "relay", "listen": "127.0.0.1:1000", "nodes": {"ports": "1001-1009"}}
CONFIG = {
    "clusters": [{"name": "eu", "bootstrap_servers": "127.0.0.1:1"}],
    "virtual_clusters": [{**RELAY, "target": {"relay": {"cluster": "eu"}}}],
}


def test_it_is_reported_and_looked_at_again() -> None:
    health, watched = UpstreamHealth(("eu",)), list[Any]()
    clusters = UpstreamClusters(Config.model_validate(CONFIG), health, lambda *_: None, watched)
    catalog = clusters._catalogs[EU] = Mock()
    clusters._login_reported(EU, LoginRefusal(UpstreamProblem.ENCRYPTION, "certificate expired"))
    assert catalog.connect_soon.called
    (problem,) = health.described()
    assert (problem["problem"], problem["reason"]) == ("encryption", "certificate expired")
    health.end(UpstreamProblem.UNREACHABLE, "eu")
    assert health.connection("eu") is not None, "an open connection of the catalog says nothing about new ones"
    clusters._login_reported(EU, None)
    assert health.connection("eu") is None
