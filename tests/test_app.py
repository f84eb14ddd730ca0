"""What the process is built from."""

from __future__ import annotations

from mesh.app import Readiness
from mesh.config.model import ClientLimits
from mesh.configured import limits_of
from mesh.server.limits import Limits
from mesh.server.troubles import Troubles


def test_limits_are_those_of_the_configuration() -> None:
    assert limits_of(ClientLimits()) == Limits()
    assert limits_of(ClientLimits.model_validate({"frame_timeout": "5s", "unread": "1MiB"})) == Limits(
        frame_timeout=5.0, unread=1 << 20
    )


def test_nobody_without_a_token_stops_a_pool_from_afar() -> None:
    readiness = Readiness((), Troubles(()), [])
    assert readiness.drain("POST", {"group": "billing"})[0] == 403
    assert readiness.drain("DELETE", {"group": "billing"})[0] == 403
    assert readiness.drain("GET", {"group": "billing"})[0] == 400, "there is no virtual cluster here"
