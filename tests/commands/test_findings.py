"""The findings of `kafka-mesh doctor` about certificates; tests/integration/test_doctor.py has those about clusters."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from mesh.commands.findings import DoctorFinding, Level, _of_certificates, examine, of_brokers
from mesh.config import load
from mesh.config.model import Config


def certificate(file: Path, days: int) -> None:
    """Makes a certificate that ends in this many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mesh")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(7).not_valid_before(now - timedelta(days=90))
    made = builder.not_valid_after(now + timedelta(days=days, hours=1)).sign(key, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    file.with_suffix(".key").write_bytes(secret)


@pytest.mark.parametrize(
    ("days", "level", "text"),
    [(-2, Level.PROBLEM, "has ended on"), (5, Level.WARNING, "ends on"), (365, Level.OK, "is valid until")],
)
def test_certificates_that_end(tmp_path: Path, days: int, level: Level, text: str) -> None:
    certificate(tmp_path / "mesh.crt", days)
    configuration = {
        "clusters": [{"name": "eu", "bootstrap_servers": "127.0.0.1:1"}],
        "virtual_clusters": [
            {
                "name": "shop",
                "listen": "127.0.0.1:19092",
                "tls": {"certificate_file": str(tmp_path / "mesh.crt"), "key_file": str(tmp_path / "mesh.key")},
                "nodes": {"ports": "19100-19101"},
                "target": {"relay": {"cluster": "eu"}},
            }
        ],
    }
    file = tmp_path / "mesh.yaml"
    file.write_text(yaml.safe_dump(configuration))
    cluster, found = examine(load(file))
    assert (cluster.level, cluster.about) == (Level.PROBLEM, "cluster eu")
    assert "127.0.0.1:1" in cluster.found
    assert (found.level, found.about) == (level, "virtual cluster shop")
    assert text in found.found
    assert bool(found.remedy) is (level is not Level.OK)


@pytest.mark.parametrize(
    ("days", "level", "text"),
    [(-2, Level.PROBLEM, "has ended on"), (5, Level.WARNING, "ends on"), (365, Level.OK, "is valid until")],
)
def test_certificates_towards_clusters_that_end(tmp_path: Path, days: int, level: Level, text: str) -> None:
    certificate(tmp_path / "mesh.crt", days)
    pem, store = (tmp_path / "mesh.crt").read_bytes(), tmp_path / "mesh.p12"
    key = serialization.load_pem_private_key((tmp_path / "mesh.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    encryption = serialization.BestAvailableEncryption(b"sesame")
    made = x509.load_pem_x509_certificate(pem)
    store.write_bytes(pkcs12.serialize_key_and_certificates(None, key, made, None, encryption))
    (tmp_path / "authorities").mkdir()
    every = [
        {"ssl.certificate.location": str(tmp_path / "mesh.crt"), "ssl.key.location": str(tmp_path / "mesh.key")},
        {"ssl.keystore.location": str(store), "ssl.keystore.password": "sesame"},
        {"ssl.ca.pem": pem.decode(), "ssl.ca.location": str(tmp_path / "authorities")},
    ]
    found = certificates_of(tmp_path, every)
    assert [(each.level, each.about) for each in found] == [
        (level, "cluster c0, ssl.certificate.location"),
        (level, "cluster c1, ssl.keystore.location"),
        (level, "cluster c2, ssl.ca.pem"),
    ]
    assert all(text in each.found for each in found)


def test_a_keystore_with_another_password(tmp_path: Path) -> None:
    (tmp_path / "mesh.p12").write_bytes(b"none")
    (found,) = certificates_of(tmp_path, [{"ssl.keystore.location": str(tmp_path / "mesh.p12")}])
    assert found.found == f"{tmp_path / 'mesh.p12'} cannot be read: no certificate can be decoded"
    assert found.remedy == "name a PKCS#12 file with a certificate, and its ssl.keystore.password"


def certificates_of(folder: Path, properties: Sequence[Mapping[str, str]]) -> list[DoctorFinding]:
    """The findings about certificates of clusters with these properties."""
    clusters = [
        {"name": f"c{index}", "bootstrap_servers": "127.0.0.1:1", "properties": {"security.protocol": "ssl", **each}}
        for index, each in enumerate(properties)
    ]
    relay = {"name": "shop", "listen": "127.0.0.1:1", "nodes": {"ports": "1"}, "target": {"relay": {"cluster": "c0"}}}
    config = Config.model_validate({"clusters": clusters, "virtual_clusters": [relay]})
    return [*_of_certificates(config)]


def test_an_advertised_address_that_cannot_be_reached_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        brokers = [
            SimpleNamespace(id=1, host="127.0.0.1", port=port),
            SimpleNamespace(id=2, host="no-such-host.invalid", port=9092),
            SimpleNamespace(id=3, host="127.0.0.1", port=1),
        ]
        found = list(of_brokers("cluster eu", brokers))
    assert [each.level for each in found] == [Level.PROBLEM] * 2
    assert found[0].found.startswith("broker 2 cannot be reached at its advertised address no-such-host.invalid:9092: ")
    assert found[1].found.startswith("broker 3 cannot be reached at its advertised address 127.0.0.1:1: ")
