"""What the process is built from."""

from __future__ import annotations

from mesh.config.model import ClientLimits
from mesh.configured import limits_of
from mesh.server.limits import Limits


def test_limits_are_those_of_the_configuration() -> None:
    assert limits_of(ClientLimits()) == Limits()
    assert limits_of(ClientLimits.model_validate({"frame_timeout": "5s", "unread": "1MiB"})) == Limits(
        frame_timeout=5.0, unread=1 << 20
    )
