"""The files in the properties of a cluster: when groups must join again, and when the certificate ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate
from structlog.testing import capture_logs

from mesh.app.cluster_files import watched_by_librdkafka, watched_by_links
from mesh.listener.certificates import WatchedCertificate
from mesh.listener.watched_files import Watched
from mesh.records.spans import ClusterName
from mesh.upstream.links.client_tls import ClientTls
from tests.app.test_cluster_settings import properties_of
from tests.integration.security.certificates import Authority

pytestmark = pytest.mark.anyio
EU = ClusterName("eu")
PASSWORD = "secret"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def by_links(properties: dict[str, str], changed: Callable[[], object]) -> Watched[Any] | None:
    return watched_by_links(EU, ClientTls(properties), changed)


def by_librdkafka(properties: dict[str, str], changed: Callable[[], object]) -> Watched[Any] | None:
    return watched_by_librdkafka(EU, properties, changed)


@pytest.mark.parametrize("watched_by", [by_links, by_librdkafka])
async def test_groups_join_again_when_the_content_has_changed(
    watched_by: Callable[[dict[str, str], Callable[[], object]], Watched[Any] | None], tmp_path: Path
) -> None:
    """Not when an agent writes the same content again, and not while the key is not that of the certificate."""
    authority, changes = Authority(tmp_path), list[str]()
    pair = authority.issue("mesh")
    files = watched_by(properties_of(authority, pair), lambda: changes.append("changed"))
    assert files is not None
    files.first()
    pair.certificate.write_bytes(pair.certificate.read_bytes())
    with capture_logs() as logs:
        await files.check()
        assert [entry["event"] for entry in logs] == ["file reloaded"]
        key = pair.key.read_bytes()
        authority.issue("mesh")
        renewed = pair.key.read_bytes()
        pair.key.write_bytes(key)
        for _ in range(3):
            await files.check()
        assert not changes
        assert [entry["event"] for entry in logs] == ["file reloaded", "file not reloaded"]
        pair.key.write_bytes(renewed)
        await files.check()
        await files.check()
    assert changes == ["changed"]


def keystore(authority: Authority, path: Path) -> float:
    """Writes a PKCS#12 file; returns the time at which its certificate ends."""
    pair = authority.issue("mesh")
    certificate = load_pem_x509_certificate(pair.certificate.read_bytes())
    key: Any = load_pem_private_key(pair.key.read_bytes(), None)
    encryption = BestAvailableEncryption(PASSWORD.encode())
    path.write_bytes(serialize_key_and_certificates(b"mesh", key, certificate, None, encryption))
    return certificate.not_valid_after_utc.timestamp()


async def test_the_end_of_a_certificate_in_a_keystore(tmp_path: Path) -> None:
    """A file that librdkafka cannot use is tried again at each check."""
    path, changes = tmp_path / "mesh.p12", list[str]()
    properties = {"ssl.keystore.location": str(path), "ssl.keystore.password": PASSWORD}
    ends = keystore(Authority(tmp_path), path)
    files = watched_by_librdkafka(EU, properties, lambda: changes.append("changed"))
    assert isinstance(files, WatchedCertificate)
    assert (files.owner, files.path) == ({"cluster": "eu"}, str(path))
    files.first()
    assert files.lifetime is not None and files.lifetime.ends == ends
    content = path.read_bytes()
    path.write_bytes(content[:100])
    with capture_logs() as logs:
        await files.check()
        await files.check()
    assert [entry["event"] for entry in logs] == ["file not reloaded"]
    assert files.signature() != files._seen, "it is tried again"
    assert files.lifetime.ends == ends
    ends = keystore(Authority(tmp_path / "other"), path)
    await files.check()
    assert changes == ["changed"]
    assert files.lifetime.ends == ends


async def test_properties_without_files() -> None:
    assert watched_by_librdkafka(EU, {"security.protocol": "ssl"}, lambda: None) is None


async def test_an_authority_alone_has_no_end(tmp_path: Path) -> None:
    properties = {"ssl.ca.location": str(Authority(tmp_path).certificate)}
    for files in (by_links(properties, lambda: None), by_librdkafka(properties, lambda: None)):
        assert files is not None and not isinstance(files, WatchedCertificate)
        files.first()
