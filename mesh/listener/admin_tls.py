"""TLS of the admin address, whose certificate may be replaced while it serves."""

from __future__ import annotations

import ssl
from typing import Any

from mesh.config.mistakes import ConfigurationError
from mesh.config.security.model import TlsConfig
from mesh.listener.certificates import watched_certificate
from mesh.listener.listener_setup import mistake_of
from mesh.listener.tls import server_context


class AdminCertificate:
    """The certificate of the admin address. context: the current one; replaced when the files change. files: the
    watched files."""

    def __init__(self, config: TlsConfig) -> None:
        """Raises OSError or ValueError for files that cannot be used."""
        files = [config.certificate_file, config.key_file]
        self.files = watched_certificate(
            {}, config.certificate_file, files, lambda: server_context(config), self._apply
        )
        self.files.first()

    def _apply(self, context: ssl.SSLContext) -> None:
        self.context = context


class AdminTls:
    """TLS of the admin address. context: that of the server, which stays. Every handshake uses the current certificate.

    A context in use never loads files: if it loaded a certificate and the key did not fit, it would have none.
    """

    def __init__(self, certificate: AdminCertificate) -> None:
        self.certificate = certificate
        self.context = certificate.context
        self.context.sni_callback = self._choose

    def replace(self, certificate: AdminCertificate) -> None:
        """Uses another certificate from the next handshake on."""
        self.certificate = certificate
        self.context.minimum_version = certificate.context.minimum_version

    def _choose(self, connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self.certificate.context


def admin_certificate(config: TlsConfig) -> AdminCertificate:
    """Reads the certificate of the admin address. Raises ConfigurationError for files that cannot be used."""
    try:
        return AdminCertificate(config)
    except (OSError, ValueError) as problem:
        files = [config.certificate_file, config.key_file]
        raise ConfigurationError([mistake_of(("admin", "tls"), files, problem)]) from None
