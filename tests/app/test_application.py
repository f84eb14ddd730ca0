"""The parts from which the process is built."""

from __future__ import annotations

import gc
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from mesh.app import Application, Readiness
from mesh.app.clusters import UpstreamClusters
from mesh.app.from_config import limits_of
from mesh.config.model import ClientLimits, Config
from mesh.listener.limits import Limits
from mesh.tasks import Tasks
from mesh.telemetry.upstream_health import UpstreamHealth
from tests.integration.processes import free_port, free_ports


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


def test_a_process_is_not_ready_before_it_knows_where_moved_topics_are() -> None:
    waiting = ["all"]
    readiness = Readiness(UpstreamHealth(()), [], list, listening=True, waiting=lambda: waiting)
    said = "all: the store has not been read, so the places of moved topics are unknown"
    assert said in readiness.problems()
    waiting.clear()
    assert said not in readiness.problems()


@pytest.mark.anyio
async def test_one_line_names_the_property_for_which_librdkafka_reads_a_cluster() -> None:
    forbidding = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "mesh",
        "sasl.oauthbearer.client.secret": "sesame",
        "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
    }
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
    upstream = Application(config, Path("mesh.yaml"))._clusters
    names = [each.name for each in config.clusters]
    with capture_logs() as logs:
        upstream.begin(await upstream.prepare(config, names, []))
    (line,) = [entry for entry in logs if entry["event"] == "cluster read by librdkafka"]
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
                await app.start(Tasks(tasks, app.task_health))
                assert gc.get_freeze_count() > 10_000
                await app.drain()
                tasks.cancel_scope.cancel()
    finally:
        gc.unfreeze()


@pytest.mark.anyio
async def test_only_pools_wait_for_clusters_that_are_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have no topics of their own: a relay, a union, and a router that leads some clients to a pool."""
    looking, looked, started = anyio.Event(), anyio.Event(), anyio.Event()

    async def learn_topics(clusters: UpstreamClusters) -> None:
        looking.set()
        await looked.wait()
        clusters.topics_known.set()

    monkeypatch.setattr(UpstreamClusters, "learn_topics", learn_topics)
    pool = {"pool": {"topics": [{"prefix": "", "cluster": "eu"}], "groups": ["*"]}}
    union = {"topics": [{"prefix": "", "route": "eu"}], "default": "eu"}
    routers = [
        {
            "name": "who",
            "type": "clients",
            "config": {"rules": [{"client_ids": ["batch-*"], "route": "shared"}], "default": "all"},
            "routes": [
                {"name": "all", "id": 0, "target": {"router": "regions"}},
                {"name": "shared", "id": 1, "target": pool},
            ],
        },
        {
            "name": "regions",
            "type": "topics",
            "config": union,
            "routes": [{"name": "eu", "id": 0, "target": {"cluster": "eu"}}],
        },
    ]
    targets = {
        "pool": pool,
        "relay": {"relay": {"cluster": "eu"}},
        "union": {"router": "regions"},
        "choice": {"router": "who"},
    }
    ports = dict(zip(targets, [free_ports(3) for _ in targets], strict=True))
    virtual_clusters = []
    for name, target in targets.items():
        listen, coordinator, node = ports[name]
        made: dict[str, object] = {"name": name, "listen": f"127.0.0.1:{listen}", "target": target}
        if name in ("pool", "choice"):
            made["coordinator"] = f"127.0.0.1:{coordinator}"
        if name != "pool":
            made["nodes"] = {"ports": str(node), "ids": [1]}
        virtual_clusters.append(made)
    clusters = [{"name": "eu", "bootstrap_servers": "127.0.0.1:1"}]
    app = Application(
        Config.model_validate({"clusters": clusters, "routers": routers, "virtual_clusters": virtual_clusters}),
        Path("mesh.yaml"),
    )

    async def are_listening() -> set[str]:
        found = set()
        for name, (listen, *_) in ports.items():
            try:
                stream = await anyio.connect_tcp("127.0.0.1", listen)
            except OSError:
                continue
            found.add(name)
            await stream.aclose()
        return found

    try:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def start() -> None:
                    await app.start(Tasks(tasks, app.task_health))
                    started.set()

                tasks.start_soon(start)
                await looking.wait()
                assert await are_listening() == {"relay", "union", "choice"}
                looked.set()
                await started.wait()
                assert await are_listening() == targets.keys()
                await app.drain()
                tasks.cancel_scope.cancel()
    finally:
        gc.unfreeze()
