"""Paces that tests do not wait for."""

from tests.runtime.relay.conftest import fast_looks as fast_looks
