"""Client certificates whose texts are not encoded as ASN.1 asks, as older and home-made authorities issue them."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import AuthorityInformationAccessOID, NameOID

from tests.integration.security.certificates import Authority, Pair, builder_of

PRINTABLE, T61, IA5, UTF8, BMP = 0x13, 0x14, 0x16, 0x0C, 0x1E
_NAME, _HOST = "placeholder", "placeholder.example"
_SIGNATURE = bytes.fromhex("300a06082a8648ce3d040302")
"""ecdsa-with-SHA256, as in both places of a certificate."""


@dataclass(frozen=True, slots=True)
class Odd:
    """A certificate in which one text is other bytes than it should be.

    tag: the kind of string of the CN. cn: the bytes of the CN. host: those of a host in SAN, a CRL point and an AIA
    address, as `places` says.
    """

    tag: int = UTF8
    cn: bytes = b"client"
    host: bytes = b"client.example"
    places: Sequence[str] = ("san",)


def issue(authority: Authority, folder: Path, odd: Odd) -> Pair:
    """Returns a certificate of this authority with these bytes, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    cn = _NAME[: len(odd.cn)].ljust(len(odd.cn), "x")
    host = _HOST[: len(odd.host)].ljust(len(odd.host), "x")
    name = x509.NameAttribute(NameOID.COMMON_NAME, cn, _type=_ASN1Type.PrintableString)
    made = builder_of(x509.Name([name]), authority.name, key.public_key())
    url = x509.UniformResourceIdentifier(f"http://{host}/x")
    for place in odd.places:
        match place:
            case "san":
                made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            case "uri":
                made = made.add_extension(x509.SubjectAlternativeName([url]), critical=False)
            case "crl":
                point = x509.DistributionPoint([url], None, None, None)
                made = made.add_extension(x509.CRLDistributionPoints([point]), critical=False)
            case "aia":
                issuer = x509.AccessDescription(AuthorityInformationAccessOID.CA_ISSUERS, url)
                made = made.add_extension(x509.AuthorityInformationAccess([issuer]), critical=False)
    signed = made.sign(authority.key, hashes.SHA256()).tbs_certificate_bytes
    right, wrong = bytes([PRINTABLE, len(cn)]) + cn.encode(), bytes([odd.tag, len(odd.cn)]) + odd.cn
    assert signed.count(right) == 1 and len(odd.host) == len(host)
    signed = signed.replace(right, wrong).replace(host.encode(), odd.host)
    signature = authority.key.sign(signed, ec.ECDSA(hashes.SHA256()))
    der = _sequence(signed + _SIGNATURE + _tagged(0x03, b"\0" + signature))
    pair = Pair(folder / "odd.crt", folder / "odd.key")
    pair.certificate.write_text(ssl.DER_cert_to_PEM_cert(der))
    pair.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return pair


def _sequence(content: bytes) -> bytes:
    return _tagged(0x30, content)


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content
