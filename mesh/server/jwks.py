"""The keys that an issuer of tokens publishes, fetched again and again, and soon when a token names an unknown one."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING, Final

import anyio

from mesh.server.logs import get_logger
from mesh.server.security import Tokens

if TYPE_CHECKING:
    from mesh.security.oauthbearer import TokenKeys

log = get_logger(__name__)

TIMEOUT: Final = 5.0
"""Seconds for one fetch."""
LARGEST: Final = 1 << 20
"""Bytes of a key set."""
SHORTEST_INTERVAL: Final = 5.0
"""Seconds between two fetches: strangers can ask for one by sending a token that names a key nobody has."""


class JwksSource:
    """interval: seconds between two fetches if nobody asks for one."""

    def __init__(self, url: str, tokens: Tokens, interval: float) -> None:
        self._url = url
        self._tokens = tokens
        self._interval = interval
        self._asked = anyio.Event()

    def refresh_soon(self) -> None:
        self._asked.set()

    async def keep_fresh(self) -> None:
        """Until cancelled. While the keys cannot be fetched the ones that are there stay in use."""
        is_failing = False
        while True:
            self._asked = anyio.Event()
            try:
                self._tokens.keys = await anyio.to_thread.run_sync(self._fetch, abandon_on_cancel=True)
            except (OSError, ValueError) as problem:
                if not is_failing:
                    log.warning("the keys for tokens cannot be fetched", path=self._url, reason=str(problem))
                is_failing = True
            else:
                if is_failing:
                    log.info("the keys for tokens are fetched again", path=self._url)
                is_failing = False
            await anyio.sleep(SHORTEST_INTERVAL)
            if self._tokens.keys is not None:
                with anyio.move_on_after(self._interval):
                    await self._asked.wait()

    def _fetch(self) -> TokenKeys:
        from mesh.security.oauthbearer import keys_of_jwks

        with urllib.request.urlopen(self._url, timeout=TIMEOUT) as response:
            text = response.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise ValueError(f"more than {LARGEST} bytes")
        return keys_of_jwks(text)
