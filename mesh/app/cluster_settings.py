"""The settings of the mesh's own connections to the upstream clusters."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mesh.listener.certificates import watched_certificate
from mesh.listener.watched_files import Watched
from mesh.records.spans import ClusterName
from mesh.upstream.links.client_tls import ClientTls
from mesh.upstream.links.connection_settings import ConnectionSettings


class ClusterSettings:
    """The settings of the mesh's own connections to each cluster. All connections to a cluster share its TLS, whose
    files are watched. watched: the watched files of the process, which gets those of the clusters."""

    def __init__(self, watched: list[Watched[Any]]) -> None:
        self._watched = watched
        self._files: dict[ClusterName, Watched[Any]] = {}
        self._settings: dict[ClusterName, ConnectionSettings] = {}

    def __getitem__(self, name: ClusterName) -> ConnectionSettings:
        return self._settings[name]

    def keep(self, settings: Mapping[ClusterName, ConnectionSettings]) -> None:
        """Keeps settings that were just read. If the TLS properties of a cluster are the same as before, all its
        connections get the new context."""
        for name, each in settings.items():
            tls = each.tls
            known = self._settings[name].tls if name in self._settings else None
            if tls is not None and known is not None and known.is_like(tls):
                known.take(tls.context)
                self._settings[name] = replace(each, tls=known)
                continue
            self.drop(name)
            self._settings[name] = each
            if tls is not None and tls.files:
                files = self._files[name] = _watched(name, tls)
                with suppress(OSError, ValueError):  # the next check reads them again
                    files.first()
                self._watched.append(files)

    def drop(self, name: ClusterName) -> None:
        """Forgets a cluster."""
        self._settings.pop(name, None)
        if (files := self._files.pop(name, None)) is not None:
            self._watched.remove(files)


def _watched(name: ClusterName, tls: ClientTls) -> Watched[Any]:
    if tls.certificate_file is None:
        return Watched(tls.files, tls.read, tls.take)
    return watched_certificate({"cluster": name}, tls.certificate_file, tls.files, tls.read, tls.take)
