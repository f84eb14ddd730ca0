"""Random lives of a pool, its leases and its logs; `make lives` runs them for any length of time."""

from __future__ import annotations

from hypothesis import settings

from tests.pool.random_lives import LivesMachine

TestLives = LivesMachine.TestCase
TestLives.settings = settings(max_examples=settings().max_examples, stateful_step_count=60)
