"""The keys that an issuer of tokens publishes. They are fetched at intervals, and soon after a token names an unknown
key."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio

from mesh.listener.security import Tokens
from mesh.telemetry.logs import get_logger

if TYPE_CHECKING:
    from mesh.security.oauthbearer import TokenKeys

log = get_logger(__name__)

TIMEOUT: Final = 5.0
"""Seconds that an endpoint may stay silent."""
LONGEST: Final = 15.0
"""The most seconds for one fetch, however much data comes."""
LARGEST: Final = 1 << 20
"""The largest key set, in bytes."""
PIECE: Final = 1 << 16
"""Bytes read at a time."""
SHORTEST_INTERVAL: Final = 5.0
"""The least seconds between two fetches. Anybody can cause a fetch by sending a token with an unknown key id."""

MOST_WANTED: Final = 1_000
"""The most key ids of tokens that are remembered until the next fetch. Clients choose them."""

Fetch = Callable[[], Awaitable["TokenKeys"]]


class JwksSource:
    """The keys of a URL, fetched at intervals. interval: seconds between two fetches if none is requested. fetch:
    returns the keys; every exception means that they cannot be fetched."""

    def __init__(self, url: str, tokens: Tokens, interval: float, fetch: Fetch | None = None) -> None:
        self.url: Final = url
        self._issuer = urlsplit(url).netloc.rpartition("@")[2]
        """The host and port of the URL, for the log. The rest may have secrets from the environment."""
        self._tokens = tokens
        self._interval = interval
        self._fetch = fetch or partial(fetch_in_thread, url, threading.Lock())
        self._asked = anyio.Event()
        self._fetched_at = -SHORTEST_INTERVAL
        """The start of the fetch that brought the current keys."""
        self._wanted: set[str] = set()
        """The unknown key ids that tokens have named since the last fetch began."""
        self._missing: set[str] = set()
        """The key ids that the last fetch did not bring, although tokens had named them before it began."""

    def refresh_soon(self, key_id: str) -> bool:
        """Requests a fetch soon, since a token names an unknown key. Returns False if the key was named before the last
        fetch, which did not bring it, and it is too early for another fetch."""
        is_new = key_id not in self._missing or anyio.current_time() - self._fetched_at >= SHORTEST_INTERVAL
        if not is_new or (len(self._wanted) >= MOST_WANTED and key_id not in self._wanted):
            return False
        self._wanted.add(key_id)
        self._asked.set()
        return True

    @property
    def keys(self) -> TokenKeys | None:
        """The keys that were fetched last; None if none were."""
        return self._tokens.keys

    def take_keys(self, keys: TokenKeys) -> None:
        """Takes keys that were fetched from the same URL before. They are in use until the next fetch succeeds."""
        self._tokens.keys = keys

    async def keep_fresh(self) -> None:
        """Fetches the keys at intervals until cancelled. If they cannot be fetched, the known keys stay in use."""
        is_failing = False
        while True:
            self._asked = anyio.Event()
            begun = anyio.current_time()
            wanted, self._wanted = self._wanted, set()
            try:
                with anyio.fail_after(LONGEST):
                    self._tokens.keys = await self._fetch()
                self._fetched_at, self._missing = begun, wanted
            except Exception as problem:  # noqa: BLE001 - whatever the issuer answers, the known keys stay
                if not is_failing:
                    reason = _reason(problem)
                    log.warning("token keys cannot be fetched", issuer=self._issuer, reason=reason)
                is_failing = True
                self._wanted |= wanted
            else:
                if is_failing:
                    log.info("token keys fetched again", issuer=self._issuer)
                is_failing = False
            await anyio.sleep(SHORTEST_INTERVAL)
            if self._tokens.keys is not None:
                with anyio.move_on_after(self._interval):
                    await self._asked.wait()


async def fetch_in_thread(url: str, one_at_a_time: threading.Lock) -> TokenKeys:
    """Fetches the keys in a thread. A fetch that was abandoned may hang; no other one begins until it has ended."""
    return await anyio.to_thread.run_sync(fetch, url, one_at_a_time, abandon_on_cancel=True)


def fetch(url: str, one_at_a_time: threading.Lock) -> TokenKeys:
    """Fetches the keys. Raises OSError or ValueError if that fails."""
    from mesh.security.oauthbearer import keys_of_jwks

    if not one_at_a_time.acquire(blocking=False):
        raise OSError("an earlier fetch has not ended yet")
    try:
        deadline = time.monotonic() + LONGEST
        text = b""
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            while piece := response.read1(PIECE):
                text += piece
                if len(text) > LARGEST:
                    raise ValueError(f"more than {LARGEST} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not finished within {LONGEST:g} s")
    except HTTPException as problem:  # the start or the end of the answer is no HTTP
        raise OSError(f"no valid HTTP answer: {type(problem).__name__}: {problem}") from problem
    finally:
        one_at_a_time.release()
    return keys_of_jwks(text)


def _reason(problem: Exception) -> str:
    match problem:
        case TimeoutError():
            return str(problem) or f"not finished within {LONGEST:g} s"
        case OSError() | ValueError():
            return str(problem)
        case _:
            return f"{type(problem).__name__}: {problem}"
