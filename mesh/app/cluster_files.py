"""The files in the properties of an upstream cluster, which are read again when they change."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mesh.files import read_file
from mesh.listener.certificates import Lifetime, lifetime_in_keystore, lifetime_of, watched_certificate
from mesh.listener.watched_files import Watched
from mesh.records.spans import ClusterName
from mesh.upstream.librdkafka_log import LOG
from mesh.upstream.links.client_tls import ClientTls
from mesh.upstream.property_files import FILES, check_files

_KEYSTORE: Final = "ssl.keystore.location"
_CERTIFICATE: Final = "ssl.certificate.location"


def watched_by_links(name: ClusterName, tls: ClientTls, changed: Callable[[], object]) -> Watched[Any]:
    """Returns the watched files of the mesh's own connections. changed: called when new content is in use."""
    certificate = tls.certificate_file
    lifetime = partial(lifetime_of, certificate) if certificate is not None else _unknown
    return _watched(name, tls.files, certificate, lifetime, tls.read, tls.take, changed)


def watched_by_librdkafka(
    name: ClusterName, properties: Mapping[str, Any], changed: Callable[[], object]
) -> Watched[Any] | None:
    """Returns the watched files of a cluster to which only librdkafka connects; None if the properties name none."""
    paths = [path for each in FILES if (path := properties.get(each))]
    if not paths:
        return None
    keystore, certificate = properties.get(_KEYSTORE), properties.get(_CERTIFICATE)
    lifetime: Callable[[], Lifetime | None] = _unknown
    if keystore:
        lifetime = partial(lifetime_in_keystore, keystore, properties.get("ssl.keystore.password", ""))
    elif certificate:
        lifetime = partial(lifetime_of, certificate)
    return _watched(
        name, paths, keystore or certificate, lifetime, partial(_check, name, properties), lambda _: None, changed
    )


def _watched(
    name: ClusterName,
    paths: Sequence[str],
    certificate: str | None,
    lifetime: Callable[[], Lifetime | None],
    load: Callable[[], ssl.SSLContext | None],
    apply: Callable[[Any], None],
    changed: Callable[[], object],
) -> Watched[Any]:
    known: list[bytes] = []
    """The hash of the content in use, if files have been read."""

    def load_all() -> tuple[ssl.SSLContext | None, bytes]:
        return load(), _content(paths)

    def apply_all(loaded: tuple[ssl.SSLContext | None, bytes]) -> None:
        context, content = loaded
        apply(context)
        # An agent may write the same content again; that must not move partitions.
        is_changed = bool(known) and known != [content]
        known[:] = [content]
        if is_changed:
            changed()

    if certificate is None:
        return Watched(paths, load_all, apply_all)
    return watched_certificate({"cluster": name}, certificate, paths, load_all, apply_all, lifetime)


def _unknown() -> None:
    """The lifetime without a certificate."""


def _content(paths: Sequence[str]) -> bytes:
    """Returns a hash of the content of files. Folders of authorities count as empty."""
    found = hashlib.sha256()
    for path in paths:
        content = b"" if Path(path).is_dir() else read_file(path)
        found.update(len(content).to_bytes(8) + content)
    return found.digest()


def _check(name: ClusterName, properties: Mapping[str, Any]) -> None:
    """Raises OSError if librdkafka cannot use the files, so that the next check tries again."""
    checked: dict[str, Any] = {key: value for key, value in properties.items() if key.startswith("ssl.")}
    checked |= {"security.protocol": "ssl", "logger": LOG.named(name)}
    try:
        check_files(checked)
        AdminClient(checked)
    except KafkaException as problem:
        raise OSError(problem.args[0].str()) from problem
