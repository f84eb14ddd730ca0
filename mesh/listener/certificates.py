"""Certificates that the mesh shows to clients and to brokers: when they end, and whether that is soon."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from cryptography.x509 import Certificate, load_pem_x509_certificates

from mesh.files import read_file
from mesh.listener.watched_files import Watched
from mesh.telemetry.metric_definitions import CERTIFICATE_ENDS_SOON, CERTIFICATE_EXPIRY, MetricSample

WHAT: Final = "certificate ends soon"
_EARLIEST: Final = 7 * 86_400.0
_PART: Final = 0.1
Loaded = TypeVar("Loaded")


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The time in which a certificate is valid. begins, ends: seconds since 1970."""

    begins: float
    ends: float

    @property
    def last_part(self) -> float:
        """Returns when the last tenth of the lifetime begins, which is at most seven days."""
        return self.ends - min((self.ends - self.begins) * _PART, _EARLIEST)


def lifetime_of(path: str) -> Lifetime | None:
    """Returns the lifetime of the certificate in a file; of several, the one that ends first. None if no certificate
    can be decoded: OpenSSL takes some that this decoder refuses. Raises OSError if the file cannot be read."""
    return lifetime_in_pem(read_file(path))


def lifetime_in_pem(content: bytes) -> Lifetime | None:
    """Returns the lifetime of the certificates in PEM, as `lifetime_of` does."""
    try:
        found = load_pem_x509_certificates(content)
    except ValueError:
        return None
    return _of_first(found)


def lifetime_in_keystore(path: str, password: str) -> Lifetime | None:
    """Returns the lifetime of the certificates in a PKCS#12 file, as `lifetime_of` does."""
    try:
        found = load_pkcs12(read_file(path), password.encode() or None)
    except ValueError:
        return None
    certificates = [found.cert, *found.additional_certs]
    return _of_first([each.certificate for each in certificates if each is not None])


def _of_first(found: Sequence[Certificate]) -> Lifetime | None:
    """Returns the lifetime of the certificate that ends first; None if there is none."""
    first = min(found, key=lambda each: each.not_valid_after_utc, default=None)
    if first is None:
        return None
    return Lifetime(first.not_valid_before_utc.timestamp(), first.not_valid_after_utc.timestamp())


@dataclass(slots=True, eq=False)
class WatchedCertificate(Watched[tuple[Any, Lifetime | None]]):
    """The watched files of a certificate. owner: the virtual cluster and listener, or the cluster; empty for the admin
    address. path: the file with the certificate. lifetime: that of the certificate in use, None if it is unknown."""

    owner: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    lifetime: Lifetime | None = field(default=None, init=False)


def watched_certificate(
    owner: Mapping[str, str],
    path: str,
    files: Sequence[str],
    load: Callable[[], Loaded],
    apply: Callable[[Loaded], None],
    lifetime: Callable[[], Lifetime | None] | None = None,
) -> WatchedCertificate:
    """Returns the watched files of something with a certificate. owner, path: as in `WatchedCertificate`. files, load,
    apply: as in `Watched`. lifetime: reads that of the certificate; None if `path` is a PEM file."""

    def load_both() -> tuple[Loaded, Lifetime | None]:
        return load(), lifetime_of(path) if lifetime is None else lifetime()

    def apply_both(both: tuple[Loaded, Lifetime | None]) -> None:
        loaded, watched.lifetime = both
        apply(loaded)

    watched = WatchedCertificate(files, load_both, apply_both, owner, path)
    return watched


def samples(watched: Iterable[Watched[Any]], clock: Callable[[], float] = time.time) -> Iterator[MetricSample]:
    """The samples of certificates among watched files. clock: returns the seconds since 1970."""
    now = clock()
    for each, lifetime in _certificates(watched):
        labels = (*(each.owner.get(name, "") for name in ("virtual_cluster", "listener", "cluster")), each.path)
        yield MetricSample(CERTIFICATE_EXPIRY, labels, lifetime.ends)
        yield MetricSample(CERTIFICATE_ENDS_SOON, labels, now >= lifetime.last_part)


def end_of(watched: Watched[Any] | None, now: float) -> str:
    """Returns when a watched certificate has ended, in words; "" if it has not. now: seconds since 1970."""
    if not isinstance(watched, WatchedCertificate) or watched.lifetime is None or now < watched.lifetime.ends:
        return ""
    return f"{watched.path} ended at {_time(watched.lifetime.ends)}"


def degraded(watched: Iterable[Watched[Any]], now: float) -> list[dict[str, object]]:
    """Returns the certificates that have ended or end soon, in the form of `UpstreamHealth.described`. now: seconds
    since 1970."""
    return [
        {
            "what": WHAT,
            **each.owner,
            "path": each.path,
            "reason": f"{'ended' if lifetime.ends <= now else 'ends'} at {_time(lifetime.ends)}",
            "since": _time(lifetime.last_part),
            "seconds": round(now - lifetime.last_part, 1),
            "meanwhile": "open connections stay; replace the file and its key before the end, else new ones fail",
        }
        for each, lifetime in _certificates(watched)
        if now >= lifetime.last_part
    ]


def _certificates(watched: Iterable[Watched[Any]]) -> Iterator[tuple[WatchedCertificate, Lifetime]]:
    for each in watched:
        if isinstance(each, WatchedCertificate) and each.lifetime is not None:
            yield each, each.lifetime


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
