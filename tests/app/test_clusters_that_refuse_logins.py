"""A cluster that accepts no login of the mesh's own connections is a problem of the whole cluster."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from mesh.app.application import Application
from mesh.app.cluster_settings import ClusterSettings
from mesh.app.clusters import UpstreamClusters
from mesh.config.model import Cluster, Config
from mesh.records.spans import ClusterName
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.links.connection_settings import connection_settings_of
from mesh.upstream.links.logins import LoginRefusal
from mesh.upstream.problems import UpstreamProblem
from tests.integration.security.certificates import Authority

EU = ClusterName("eu")
RELAY = {"name": "relay", "listen": "127.0.0.1:1000", "nodes": {"ports": "1001-1009"}}
CONFIG = {
    "clusters": [{"name": "eu", "bootstrap_servers": "127.0.0.1:1"}],
    "virtual_clusters": [{**RELAY, "target": {"relay": {"cluster": "eu"}}}],
}


def test_the_reason_names_a_certificate_that_has_ended(tmp_path: Path) -> None:
    """Brokers of Kafka say only that it is unknown."""
    authority = Authority(tmp_path)
    pair = authority.issue("mesh", life=timedelta(seconds=-1))
    properties = {
        "security.protocol": "ssl",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(pair.certificate),
        "ssl.key.location": str(pair.key),
    }
    settings = ClusterSettings([])
    settings.keep({EU: settings.read(EU, connection_settings_of(properties), {})})
    reason = settings.explained(EU, UpstreamProblem.ENCRYPTION, "certificate unknown")
    assert reason.startswith(f"{pair.certificate} ended at 20") and reason.endswith("; certificate unknown")
    assert settings.explained(EU, UpstreamProblem.CREDENTIALS, "wrong password") == "wrong password"
    authority.issue("mesh")
    settings.keep({EU: settings.read(EU, connection_settings_of({**properties, "client.id": "mesh"}), {})})
    assert settings.explained(EU, UpstreamProblem.ENCRYPTION, "unknown") != "unknown", "the files are not read yet"
    settings.drop(EU)
    assert settings.explained(EU, UpstreamProblem.ENCRYPTION, "unknown") == "unknown"


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


def test_another_login_goes_to_pools_and_to_the_journal_and_the_store_of_the_cluster() -> None:
    """They stay at a reload."""
    kept = SimpleNamespace(cluster="eu")
    journal, store, pool = Mock(), Mock(), Mock()
    virtual_clusters, config = Mock(pools=lambda: [pool]), SimpleNamespace(journal=kept, store=kept)
    process: Any = SimpleNamespace(_journal=journal, _store=store, config=config, _virtual_clusters=virtual_clusters)
    properties = {"sasl.username": "mesh", "sasl.password": "new"}
    for name in ("us", "eu"):
        cluster = Cluster.model_validate({"name": name, "bootstrap_servers": "1:1", "properties": properties})
        Application._login_changed(process, cluster)
    for each in (journal, store):
        each.change_login.assert_called_once_with("mesh", "new")
    assert [call.args for call in pool.change_login.call_args_list] == [(name, "mesh", "new") for name in ("us", "eu")]
