"""The chosen engine, and the reason if it is not the preferred one."""

from __future__ import annotations

from typing import Literal

import pytest

from mesh.upstream.engine_choice import choose
from mesh.upstream.links.connection_settings import connection_settings_or_reason


@pytest.mark.parametrize(("wanted", "chosen"), [("librdkafka", "librdkafka"), ("auto", "raw"), ("raw", "raw")])
def test_without_obstacles(wanted: Literal["auto", "raw", "librdkafka"], chosen: str) -> None:
    choice = choose(wanted, connection_settings_or_reason({"client.id": "mesh"}))
    assert (choice.engine, choice.reason) == (chosen, "")


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"ssl.cipher.suites": "a"}, "ssl.cipher.suites"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/nowhere/ca.pem"}, "ssl properties"),
    ],
)
def test_auto_says_what_is_in_the_way(properties: dict[str, str], named: str) -> None:
    choice = choose("auto", connection_settings_or_reason(properties))
    assert choice.engine == "librdkafka"
    assert named in choice.reason
