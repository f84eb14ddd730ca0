"""The settings of the mesh's own connections to the upstream clusters."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mesh.app.cluster_files import watched_by_librdkafka, watched_by_links
from mesh.listener.certificates import end_of
from mesh.listener.watched_files import Watched
from mesh.records.spans import ClusterName
from mesh.upstream.links.client_tls import ClientTls
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.handshake import CLOSED, Unreachable, connect
from mesh.upstream.links.logins import Address, LoginRefusal, LoginWatch
from mesh.upstream.problems import UpstreamProblem


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The settings of connections to one cluster, with the files of its properties, as they were just read. settings:
    None if only librdkafka connects to it. files: None if there are none."""

    settings: ConnectionSettings | None
    files: Watched[Any] | None = None


class ClusterSettings:
    """The settings of the mesh's own connections to each cluster. All connections to a cluster share its TLS, whose
    files are watched. watched: the watched files of the process, which gets those of the clusters. report: called with
    the reason why no node of a cluster accepts the login, and with None when one accepts again. changed: called with a
    cluster when the content of its files has changed, and is in use."""

    def __init__(
        self,
        watched: list[Watched[Any]],
        report: Callable[[ClusterName, LoginRefusal | None], object] = lambda *_: None,
        changed: Callable[[ClusterName], object] = lambda _: None,
    ) -> None:
        self._watched = watched
        self._report = report
        self._changed = changed
        self._logins: dict[ClusterName, LoginWatch] = {}
        self._files: dict[ClusterName, Watched[Any]] = {}
        self._settings: dict[ClusterName, ConnectionSettings] = {}

    def __getitem__(self, name: ClusterName) -> ConnectionSettings:
        return self._settings[name]

    def read(
        self, name: ClusterName, settings: ConnectionSettings | None, properties: Mapping[str, Any]
    ) -> ReadSettings:
        """Reads the files of a cluster once, so that only later changes count as changes. It changes nothing, and may
        run in a thread. settings: None if only librdkafka connects to the cluster."""
        changed = partial(self._changed, name)
        if settings is not None:
            settings = replace(settings, cluster=name)
        tls = settings.tls if settings is not None else None
        files = watched_by_links(name, tls, changed) if tls is not None and tls.files else None
        if settings is None:
            files = watched_by_librdkafka(name, properties, changed)
        if files is not None:
            with suppress(OSError, ValueError):  # the next check reads them again
                files.first()
        return ReadSettings(settings, files)

    def keep(self, read: Mapping[ClusterName, ReadSettings]) -> None:
        """Keeps settings that were just read. If the TLS properties of a cluster are the same as before, all its
        connections get the new context. If only the user name or the password has changed, they get those, too."""
        for name, each in read.items():
            before = self._settings.get(name)
            if each.settings is None:
                self._watch(name, each.files)
                continue
            kept = self._keep_tls(name, each.settings, each.files, before.tls if before is not None else None)
            if before is not None and kept == before:
                before.login.take(kept.login)
            else:
                self._watch_logins(name, kept)

    def explained(self, name: ClusterName, problem: UpstreamProblem, reason: str) -> str:
        """Returns the reason of a problem with a cluster. Brokers do not say that a certificate has ended, only that
        they do not accept it."""
        ended = end_of(self._files.get(name), time.time()) if problem is UpstreamProblem.ENCRYPTION else ""
        return f"{ended}; {reason}" if ended else reason

    def forget_refusal(self, name: ClusterName) -> None:
        """Forgets that a refusal of a cluster was reported, as its problems are forgotten."""
        if name in self._logins:
            self._logins[name].forget()

    def close(self) -> None:
        """Ends the watches over logins."""
        for logins in self._logins.values():
            logins.close()

    def drop(self, name: ClusterName) -> None:
        """Forgets a cluster."""
        self._settings.pop(name, None)
        if (files := self._files.pop(name, None)) is not None:
            self._watched.remove(files)
        if (logins := self._logins.pop(name, None)) is not None:
            logins.close()

    def _keep_tls(
        self, name: ClusterName, new: ConnectionSettings, files: Watched[Any] | None, known: ClientTls | None
    ) -> ConnectionSettings:
        tls = new.tls
        if tls is not None and known is not None and known.is_like(tls):
            known.take(tls.context)
            return replace(new, tls=known)
        self._watch(name, files)
        return new

    def _watch(self, name: ClusterName, files: Watched[Any] | None) -> None:
        """Watches files of a cluster in the place of earlier ones."""
        if (before := self._files.pop(name, None)) is not None:
            self._watched.remove(before)
        if files is not None:
            self._files[name] = files
            self._watched.append(files)

    def _watch_logins(self, name: ClusterName, settings: ConnectionSettings) -> None:
        self._settings[name] = settings
        if (before := self._logins.pop(name, None)) is not None:
            before.close()

        async def attempt(address: Address) -> None:
            with suppress(Unreachable):  # the logins have noted it
                (await connect(*address, settings)).fail(CLOSED)

        self._logins[name] = LoginWatch(name, settings.logins, attempt, partial(self._report, name))
