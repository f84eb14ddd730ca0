"""The token of a cluster, for all its clients: the mesh's own connections, and librdkafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final

import structlog

from mesh.security.oauthbearer_client import Token, TokenRefused

log = structlog.get_logger(__name__)

RENEWED_AFTER: Final = 0.75
"""The part of a token's lifetime after which a new one is fetched. librdkafka asks after 0.8 of it."""
PATIENCE: Final = 15.0
"""Seconds that a librdkafka client waits for a token."""
BACKOFF: Final = 1.0
MOST_BACKOFF: Final = 30.0
"""The most seconds between attempts to fetch a token."""
LEAST_AGE: Final = 5.0
"""The least seconds for which a token is kept, even if a broker refuses it. Otherwise the issuer would get endless
requests."""

Fetch = Callable[[], Token]


class TokenUnavailable(Exception):
    """Raised when there is no usable token."""


class TokenSource:
    """The source of one cluster's tokens for all connections. It fetches a new token before the old one expires.

    fetch: blocks for seconds at most; called in a thread, one call at a time. Raises TokenRefused, OSError or
    ValueError. While it fails, the current token stays in use until it expires. clock: steady; all intervals are
    measured by it, since somebody may set the time. wall: the time at which a token expires.
    """

    def __init__(
        self,
        name: str,
        fetch: Fetch,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._fetch = fetch
        self._clock = clock
        self._wall = wall
        self._lock = threading.Lock()
        self._under_way: Future[Token] | None = None
        self._token: Token | None = None
        self._fetched_at = 0.0
        self._renew_at = 0.0
        self._retry_at = 0.0
        self._backoff = 0.0
        self._reason = ""

    def request(self) -> Future[Token]:
        """Returns the future of a usable token. Its exception is TokenUnavailable. Does not block."""
        with self._lock:
            now = self._clock()
            if self._under_way is not None:
                return self._under_way
            is_fresh = self._is_usable() and now < self._renew_at
            if is_fresh or now < self._retry_at:
                return self._settled(Future())
            future: Future[Token] = Future()
            future.set_running_or_notify_cancel()  # so that no waiter can cancel it for the others
            self._under_way = future
        try:
            threading.Thread(target=self._run, args=(future,), name=f"token of {self._name}", daemon=True).start()
        except RuntimeError as problem:  # the system has no thread left
            self._failed(problem)
            self._end(future)
        return future

    def refused(self, token: Token) -> None:
        """Notes that a broker refused this token: the next connection gets another one, unless this one is new."""
        with self._lock:
            if self._token is token and self._clock() - self._fetched_at >= LEAST_AGE:
                self._token = None

    def __call__(self, _: str) -> tuple[str, float, str, Mapping[str, str]]:
        """Returns a token for librdkafka's `oauth_cb`. Raises TokenUnavailable."""
        try:
            token = self.request().result(PATIENCE)
        except FutureTimeoutError:
            raise TokenUnavailable(f"no token within {PATIENCE:g} s") from None
        return token.value, token.expires_at, token.principal, dict(token.extensions)

    def _is_usable(self) -> bool:
        return self._token is not None and self._wall() < self._token.expires_at

    def _settled(self, future: Future[Token]) -> Future[Token]:
        if self._token is not None and self._is_usable():
            future.set_result(self._token)
        else:
            future.set_exception(TokenUnavailable(self._reason))
        return future

    def _run(self, future: Future[Token]) -> None:
        begun, wall = self._clock(), self._wall()
        try:
            token = self._fetch()
            if token.expires_at <= wall:
                raise TokenRefused(f"the token ended {wall - token.expires_at:.0f} s ago")
        except BaseException as problem:  # noqa: BLE001 - becomes the error of all waiting connections
            self._failed(problem)
        else:
            self._fetched(token, begun, token.expires_at - wall)
        self._end(future)

    def _end(self, future: Future[Token]) -> None:
        with self._lock:
            self._under_way = None
            self._settled(future)

    def _fetched(self, token: Token, begun: float, lifetime: float) -> None:
        with self._lock:
            had_failed, self._reason = bool(self._reason), ""
            self._token, self._fetched_at, self._backoff = token, begun, 0.0
            self._renew_at = begun + RENEWED_AFTER * lifetime
        if had_failed:
            log.info("tokens fetched again", cluster=self._name)

    def _failed(self, problem: BaseException) -> None:
        reason = str(problem) or repr(problem)
        with self._lock:
            had_failed, self._reason = bool(self._reason), f"no token: {reason}"
            self._backoff = min(max(self._backoff * 2, BACKOFF), MOST_BACKOFF)
            self._retry_at = self._clock() + self._backoff
        if not had_failed:
            log.warning("token cannot be fetched", cluster=self._name, reason=reason)
