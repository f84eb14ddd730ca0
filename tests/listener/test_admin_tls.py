"""The certificate of the admin address, which is replaced while it serves."""

from __future__ import annotations

import shutil
import socket
import ssl
from functools import partial
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from mesh.admin.access import AdminAccess
from mesh.admin.http import bind_admin, serve_admin
from mesh.config.mistakes import ConfigurationError
from mesh.config.security.model import TlsConfig
from mesh.listener.admin_tls import AdminTls, admin_certificate
from mesh.telemetry.metrics import Metrics
from tests.admin.test_http import State, free_address
from tests.integration.security.certificates import Authority, Pair

pytestmark = pytest.mark.anyio


def configured(pair: Pair, minimum: str = "TLSv1.2") -> TlsConfig:
    files = {"certificate_file": str(pair.certificate), "key_file": str(pair.key)}
    return TlsConfig.model_validate({**files, "minimum_version": minimum})


def shown_certificate(port: int, authority: Authority, name: str | None, version: ssl.TLSVersion) -> bytes:
    """The certificate that the admin address shows to a new connection; it must come from that authority. name: the
    name in SNI, None for no SNI."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.check_hostname = name is not None
    context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", port), 10) as raw,
        context.wrap_socket(raw, server_hostname=name) as connection,
    ):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert connection.recv(1_000).startswith(b"HTTP/1.1 200")
        found = connection.getpeercert(binary_form=True)
    assert found is not None
    return found


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["localhost", None])
async def test_a_new_certificate_is_shown_once_its_files_change(
    tmp_path: Path, name: str | None, version: ssl.TLSVersion
) -> None:
    authority = Authority(tmp_path / "authority")
    pair = authority.issue("admin")
    tls = AdminTls(admin_certificate(configured(pair)))
    address = free_address()
    shown = partial(anyio.to_thread.run_sync, shown_certificate, address.port, authority, name, version)
    async with anyio.create_task_group() as tasks:
        serve = partial(serve_admin, access=AdminAccess(tls=tls.context))
        await tasks.start(serve, bind_admin(address), State(), Metrics())
        first = await shown()
        with capture_logs() as logs:
            pair.certificate.write_text("no certificate")
            await tls.certificate.files.check()
            assert await shown() == first
            shutil.copy(authority.issue("other").certificate, pair.certificate)
            await tls.certificate.files.check()
            assert await shown() == first, "the key is not that of the certificate"
            authority.issue("admin")
            await tls.certificate.files.check()
        second = await shown()
        assert second != first
        assert second == ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())
        assert [entry["event"] for entry in logs] == ["file not reloaded", "file not reloaded", "file reloaded"]

        third = authority.issue("third")
        tls.replace(admin_certificate(configured(third)))
        assert await shown() == ssl.PEM_cert_to_DER_cert(third.certificate.read_text())
        tls.replace(admin_certificate(configured(third, "TLSv1.3")))
        if version is ssl.TLSVersion.TLSv1_2:
            with pytest.raises(ssl.SSLError):
                await shown()
        tasks.cancel_scope.cancel()


async def test_admin_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"admin\.tls"):
        admin_certificate(TlsConfig(certificate_file=str(tmp_path / "a"), key_file=str(tmp_path / "b")))
