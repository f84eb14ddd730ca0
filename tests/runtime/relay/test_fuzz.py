"""A short run; `make fuzz-relay` runs longer ones."""

from __future__ import annotations

import asyncio

import structlog

from tests.runtime.relay import fuzz


def test_nothing_but_closed_connections() -> None:
    configured = structlog.get_config()
    try:
        ends = asyncio.run(fuzz.run(seed=3, count=4_000))
    finally:
        structlog.configure(**configured)
    assert ends["closed"] > 500
    assert ends["open"] > 500
