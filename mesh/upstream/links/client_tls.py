"""TLS of the mesh's own connections to an upstream cluster, from librdkafka's properties."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mesh.files import read_file

_CA_FILE: Final = "ssl.ca.location"
_CERTIFICATE_FILE: Final = "ssl.certificate.location"
_KEY_FILE: Final = "ssl.key.location"
_READ: Final = (
    _CA_FILE,
    _CERTIFICATE_FILE,
    _KEY_FILE,
    "enable.ssl.certificate.verification",
    "ssl.ca.pem",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
)


class ClientTls:
    """TLS of the mesh's own connections to one cluster. context: used by the next handshake.

    A context in use never loads files: if it loaded a certificate and the key did not fit, it would have none.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        """Raises OSError (ssl.SSLError is one) or ValueError for files that cannot be used."""
        self._properties = {name: properties[name] for name in _READ if name in properties}
        self.context = self.read()

    @property
    def files(self) -> list[str]:
        """The files that `read` reads."""
        return [path for name in (_CA_FILE, _CERTIFICATE_FILE, _KEY_FILE) if (path := self._properties.get(name))]

    @property
    def certificate_file(self) -> str | None:
        return self._properties.get(_CERTIFICATE_FILE) or None

    def is_like(self, other: ClientTls) -> bool:
        """Returns whether the other one has the same properties."""
        return self._properties == other._properties

    def read(self) -> ssl.SSLContext:
        """Reads the files, and returns a new context. Raises the errors of the constructor."""
        for path in self.files:  # OpenSSL would wait for a pipe, and its error does not name the file
            if not Path(path).is_dir():
                read_file(path)
        properties = self._properties
        context = _trusting(properties)
        if properties.get("ssl.endpoint.identification.algorithm", "https") == "none":
            context.check_hostname = False
        if properties.get("enable.ssl.certificate.verification", "true").lower() in ("false", "f", "0"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate := properties.get(_CERTIFICATE_FILE):
            context.load_cert_chain(certificate, properties.get(_KEY_FILE), properties.get("ssl.key.password", ""))
        return context

    def take(self, context: ssl.SSLContext) -> None:
        """Uses another context from the next handshake on. Open connections stay."""
        self.context = context


def _trusting(properties: Mapping[str, Any]) -> ssl.SSLContext:
    """Returns a context that trusts the authorities in the properties. librdkafka trusts only these; without any it
    trusts those of the system."""
    location, authorities = properties.get(_CA_FILE), properties.get("ssl.ca.pem")
    if not location and not authorities:
        return ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not location:
        context.load_verify_locations(cadata=authorities)
    elif Path(location).is_dir():
        context.load_verify_locations(capath=location)
    else:
        context.load_verify_locations(cafile=location)
    return context
