"""Short intervals, so that tests do not wait."""

from tests.runtime.relay.conftest import fast_looks as fast_looks
