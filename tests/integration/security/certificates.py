"""Certificates of a test's own authorities."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key in PEM files."""

    certificate: Path
    key: Path


class Authority:
    """An authority that signs certificates. certificate: its own, in a PEM file."""

    def __init__(self, folder: Path, name: str = "Test Authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = builder_of(self.name, self.name, self.key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(_pem(builder.sign(self.key, hashes.SHA256())))

    def issue(self, name: str, file: str = "", organization: str = "", life: timedelta = _DAY) -> Pair:
        """A certificate of CN=name for servers on this machine and for clients; replaces the one of the same file.
        life: the time until it ends."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organization:
            subject.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        builder = builder_of(x509.Name(subject), self.name, key.public_key(), life)
        here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(here), critical=False)
        pair = Pair(self._folder / f"{file or name}.crt", self._folder / f"{file or name}.key")
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        pair.certificate.write_bytes(_pem(builder.sign(self.key, hashes.SHA256())))
        return pair


def builder_of(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: timedelta = _DAY
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + life)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
