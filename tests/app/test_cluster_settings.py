"""The TLS of the mesh's own connections to clusters: one for all of them, replaced when its files change."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from mesh.app import clusters as clusters_module
from mesh.app.cluster_settings import ClusterSettings
from mesh.app.clusters import UpstreamClusters
from mesh.config.model import Config
from mesh.listener.certificates import samples
from mesh.listener.watched_files import Watched
from mesh.records.spans import ClusterName
from mesh.telemetry.upstream_health import UpstreamHealth
from mesh.upstream.engine import EngineOptions
from mesh.upstream.links.connection_settings import ConnectionSettings, Login, connection_settings_of
from mesh.upstream.links.handshake import connect
from tests.integration.security.certificates import Authority, Pair

pytestmark = pytest.mark.anyio
EU = ClusterName("eu")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def properties_of(authority: Authority, pair: Pair) -> dict[str, str]:
    return {
        "security.protocol": "ssl",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(pair.certificate),
        "ssl.key.location": str(pair.key),
    }


@asynccontextmanager
async def asking_for_certificates(authority: Authority) -> AsyncIterator[tuple[int, asyncio.Queue[Any]]]:
    """A TLS server that requires certificates of clients: its port, and the names that they showed."""
    server = authority.issue("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.load_cert_chain(server.certificate, server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    names: asyncio.Queue[Any] = asyncio.Queue()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        names.put_nowait(writer.get_extra_info("peercert")["subject"][0][0][1])
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1], names


async def test_the_next_handshake_shows_the_certificate_that_replaced_the_old_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("old", "mesh")
    watched: list[Watched[Any]] = []
    kept = ClusterSettings(watched)
    kept.keep({EU: kept.read(EU, connection_settings_of(properties_of(authority, pair)), {})})
    assert kept[EU].cluster == EU, "failures of its connections name the cluster"
    settings = kept[EU]  # as a link has it
    (files,) = watched
    async with asking_for_certificates(authority) as (port, names):

        async def shown() -> str:
            (await connect("localhost", port, settings, is_bare=True)).fail("done")
            name: str = await names.get()
            return name

        assert await shown() == "old"
        key = pair.key.read_bytes()
        authority.issue("new", "mesh")
        renewed = pair.key.read_bytes()
        pair.key.write_bytes(key)
        with capture_logs() as logs:
            await files.check()
            await files.check()
            assert await shown() == "old", "the key is not that of the certificate"
            pair.key.write_bytes(renewed)
            await files.check()
            await files.check()
        assert await shown() == "new"
        assert [entry["event"] for entry in logs] == ["file not reloaded", "file reloaded"]


async def test_settings_of_a_reload_go_to_connections_that_stay(tmp_path: Path) -> None:
    """Other properties get a TLS of their own, and the files of the old one are not watched any more."""
    authority = Authority(tmp_path)
    properties = properties_of(authority, authority.issue("mesh"))
    watched: list[Watched[Any]] = []
    kept = ClusterSettings(watched)
    kept.keep({EU: kept.read(EU, connection_settings_of(properties), {})})
    first, (files,) = kept[EU], watched
    again = connection_settings_of({**properties, "client.id": "another"})
    assert again.tls is not None
    read = kept.read(EU, again, {})
    context = again.tls.context
    kept.keep({EU: read})
    assert (kept[EU].client_id, kept[EU].tls, watched) == ("another", first.tls, [files])
    assert first.tls is not None and first.tls.context is context
    other = connection_settings_of({**properties, "ssl.endpoint.identification.algorithm": "none"})
    kept.keep({EU: kept.read(EU, other, {})})
    assert kept[EU].tls is not first.tls
    assert len(watched) == 1 and files not in watched
    kept.keep({EU: kept.read(EU, connection_settings_of({}), {})})
    assert not watched
    kept.drop(EU)
    kept.drop(EU)


async def test_all_connections_to_a_cluster_share_its_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links of relays and routers, the engines of both kinds, and the requests of tools."""
    authority = Authority(tmp_path)
    properties = properties_of(authority, authority.issue("mesh"))
    engines = {"eu": "auto", "us": "librdkafka"}
    clusters = [
        {"name": name, "bootstrap_servers": "127.0.0.1:1", "properties": properties, "engine": engine}
        for name, engine in engines.items()
    ]
    pool = {"topics": [{"name": "t", "from": [{"cluster": name, "topic": "t"} for name in engines]}], "groups": ["*"]}
    addresses = {"listen": "127.0.0.1:1000", "coordinator": "127.0.0.1:1001"}
    tree = {"clusters": clusters, "virtual_clusters": [{"name": "pool", **addresses, "target": {"pool": pool}}]}
    config = Config.model_validate(tree)
    watched: list[Watched[Any]] = []
    upstream, names = UpstreamClusters(config, UpstreamHealth(("eu", "us")), lambda *_: None, watched), list(engines)
    upstream.begin(await upstream.prepare(config, list(map(ClusterName, names)), ()))
    assert {each.labels[2] for each in samples(watched)} == {"eu", "us"}
    made: list[EngineOptions] = []
    monkeypatch.setattr(clusters_module, "make_engine", lambda _, options, *__: made.append(options))
    for name in map(ClusterName, engines):
        upstream.engine("pool", config.all_pools()[0], name, "group", lambda _: None, None)  # type: ignore[arg-type]
    upstream.take(await upstream.prepare(config, (), list(map(ClusterName, names))))
    settings: Mapping[str, ConnectionSettings | None] = {each.cluster: each.settings for each in made}
    for name in map(ClusterName, engines):
        linked, asking, reading = upstream.cluster_with_settings(name)[1], upstream.settings_of(name), settings[name]
        assert asking is not None and reading is not None and linked.tls is not None
        assert linked.tls is asking.tls is reading.tls
    assert len(watched) == 2


async def test_connections_that_stay_get_another_login() -> None:
    """A reload need not restart a relay for it."""
    kept = ClusterSettings([])
    properties = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "mesh"}
    kept.keep({EU: kept.read(EU, connection_settings_of({**properties, "sasl.password": "old"}), {})})
    settings = kept[EU]  # as a link has it
    kept.keep({EU: kept.read(EU, connection_settings_of({**properties, "sasl.password": "new"}), {})})
    assert kept[EU] is settings
    assert settings.login == Login("mesh", "new")
    kept.keep({EU: kept.read(EU, connection_settings_of({**properties, "sasl.mechanism": "SCRAM-SHA-256"}), {})})
    assert kept[EU] is not settings
