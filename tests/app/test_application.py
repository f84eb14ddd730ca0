"""What the process is built from."""

from __future__ import annotations

import gc
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from mesh.app import Application, Readiness
from mesh.app.from_config import limits_of
from mesh.config.model import ClientLimits, Config
from mesh.listener.limits import Limits
from mesh.telemetry.upstream_health import UpstreamHealth
from tests.integration.processes import free_port


def test_limits_are_those_of_the_configuration() -> None:
    assert limits_of(ClientLimits()) == Limits()
    assert limits_of(ClientLimits.model_validate({"frame_timeout": "5s", "unread": "1MiB"})) == Limits(
        frame_timeout=5.0, unread=1 << 20
    )


def test_nobody_without_a_token_stops_a_pool_from_afar() -> None:
    readiness = Readiness(UpstreamHealth(()), [], list)
    assert readiness.drain("GET", {"group": "billing"})[0] == 503, "it is starting"
    readiness.listening = True
    assert readiness.drain("POST", {"group": "billing"})[0] == 403
    assert readiness.drain("DELETE", {"group": "billing"})[0] == 403
    assert readiness.drain("GET", {"group": "billing"})[0] == 400, "there is no virtual cluster here"


def test_one_line_names_the_property_for_which_librdkafka_reads_a_cluster() -> None:
    forbidding = {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}
    clusters = [
        {"name": "eu", "bootstrap_servers": "eu:9092", "engine": "auto"},
        {"name": "us", "bootstrap_servers": "us:9092", "engine": "auto", "properties": forbidding},
    ]
    topic = {"name": "orders", "from": [{"cluster": "eu", "topic": "orders"}]}
    shop = {
        "name": "shop",
        "listen": "127.0.0.1:19092",
        "coordinator": "127.0.0.1:19093",
        "target": {"pool": {"topics": [topic], "groups": ["*"]}},
    }
    config = Config.model_validate({"clusters": clusters, "virtual_clusters": [shop]})
    with capture_logs() as logs:
        Application(config, Path("mesh.yaml"))
    (line,) = [entry for entry in logs if entry["event"] == "a cluster is read by librdkafka"]
    assert (line["log_level"], line["cluster"]) == ("warning", "us")
    assert line["reason"].startswith("sasl.mechanism is OAUTHBEARER")


@pytest.mark.anyio
async def test_what_is_there_before_clients_are_served_is_not_looked_through_again() -> None:
    address = {name: f"127.0.0.1:{free_port()}" for name in ("listen", "coordinator")}
    topic = {"name": "orders", "from": [{"cluster": "eu", "topic": "orders"}]}
    config = Config.model_validate(
        {
            "clusters": [{"name": "eu", "bootstrap_servers": "127.0.0.1:1"}],
            "virtual_clusters": [{"name": "shop", **address, "target": {"pool": {"topics": [topic], "groups": ["*"]}}}],
        }
    )
    app = Application(config, Path("mesh.yaml"))
    try:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                await app.start(tasks)
                assert gc.get_freeze_count() > 10_000
                await app.drain()
                tasks.cancel_scope.cancel()
    finally:
        gc.unfreeze()
