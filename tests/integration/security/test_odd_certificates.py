"""Trusted clients whose certificates are not encoded as they should be: they are served as by a broker, or refused."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.running import MockCluster, RunningMesh, virtual_cluster
from tests.integration.processes import free_port
from tests.integration.security.certificates import Authority, Pair
from tests.integration.security.odd_certificates import BMP, IA5, PRINTABLE, T61, Odd, issue

pytestmark = pytest.mark.timeout(300)

SERVED = {
    "as it should be": Odd(),
    "PrintableString with *": Odd(PRINTABLE, b"*@x"),
    "PrintableString with _ and &": Odd(PRINTABLE, b"a_b&c"),
    "T61String in latin-1": Odd(T61, "m\xfcller".encode("latin-1")),
    "IA5String with a byte ff": Odd(IA5, b"a\xffb"),
    "BMPString": Odd(BMP, "m\xfcller".encode("utf-16-be")),
    "host with a byte ff": Odd(host=b"a\xffb.example"),
    "host in latin-1": Odd(host="m\xfcnchen.example".encode("latin-1")),
    "URI with a byte ff": Odd(host=b"a\xffb.example", places=["uri"]),
    "CRL point and AIA with a byte ff": Odd(host=b"a\xffb.example", places=["crl", "aia"]),
}
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
SCRAM = {"mechanisms": ["SCRAM-SHA-256"], "users": [{"name": "alice", "password": "sesame"}]}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def mesh(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningMesh]:
    """A pool, a relay, and a router for clients with authentication, which want certificates."""
    own = authority.issue("mesh")
    tls = {
        "certificate_file": str(own.certificate),
        "key_file": str(own.key),
        "client_ca_file": str(authority.certificate),
        "client_authentication": "required",
    }
    listen = {name: f"127.0.0.1:{free_port()}" for name in ("relay", "clients")}
    nodes = {"ports": free_port(), "ids": [1]}
    to_eu = {"name": "eu", "id": 0, "target": {"cluster": "eu"}}
    choose = {"rules": [{"certificates": ["CN=nobody"], "route": "eu"}], "default": "eu"}
    cluster = MockCluster()
    mesh = RunningMesh(
        tmp_path_factory.mktemp("mesh"),
        {"eu": cluster},
        {
            "routers": [{"name": "who", "type": "clients", "config": choose, "routes": [to_eu]}],
            "virtual_clusters": [
                virtual_cluster("pool", ["eu"], tls=tls),
                {
                    "name": "relay",
                    "listen": listen["relay"],
                    "nodes": nodes,
                    "tls": tls,
                    "target": {"relay": {"cluster": "eu"}},
                },
                {
                    "name": "clients",
                    "listen": listen["clients"],
                    "nodes": {"ports": free_port(), "ids": {"eu": [1]}},
                    "tls": tls,
                    "target": {"router": "who"},
                },
            ],
        },
    )
    yield mesh
    mesh.process.kill()


def is_served(address: str, authority: Authority, pair: Pair) -> bool:
    """True if the client gets an answer to ApiVersions; False if it is refused."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(pair.certificate, pair.key)
    host, port = address.split(":")
    try:
        with (
            socket.create_connection((host, int(port)), 30) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as connection,
        ):
            connection.sendall(API_VERSIONS)
            return len(connection.makefile("rb").read(8)) == 8
    except OSError:
        return False


@pytest.mark.parametrize("odd", SERVED.values(), ids=SERVED)
def test_a_client_is_served_as_by_a_broker_and_others_go_on(
    authority: Authority, mesh: RunningMesh, tmp_path: Path, odd: Odd
) -> None:
    addresses = {each["name"]: each["listen"] for each in mesh.configuration["virtual_clusters"]}
    pair, good = issue(authority, tmp_path, odd), authority.issue("good")
    for name, address in addresses.items():
        assert is_served(address, authority, pair), name
        assert is_served(address, authority, good), name
        assert mesh.process.exit_code is None
        assert mesh.metric("kafka_mesh_task_failures_total") == 0


def test_a_host_name_in_a_handshake_that_is_no_ascii_is_a_failed_handshake(mesh: RunningMesh) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="muller.example")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    host, port = mesh.shop["listen"].split(":")
    before = mesh.metric("kafka_mesh_tls_failures_total")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(outgoing.read().replace(b"muller.example", b"m\xfcller.example"))
        while connection.recv(1_000):
            pass
    assert mesh.metric("kafka_mesh_tls_failures_total") == before + 1
    assert mesh.metric("kafka_mesh_task_failures_total") == 0
    assert "UnicodeDecodeError" not in mesh.process.log.read_text()
