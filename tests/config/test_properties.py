from __future__ import annotations

from pathlib import Path

import pytest

from mesh.config.properties import RESERVED, refused_properties
from mesh.records.spans import ClusterName
from mesh.upstream.engine import EngineOptions
from mesh.upstream.librdkafka_properties import consumer_properties
from tests.config.files import mistakes, small


def test_correct_properties() -> None:
    assert not list(refused_properties({"client.id": "x", "socket.timeout.ms": "6000", "session.timeout.ms": "10000"}))


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_properties_that_are_ours(name: str) -> None:
    assert [(refused, said[:27]) for refused, said in refused_properties({name: "1"})] == [
        (name, "kafka-mesh sets this itself")
    ]


def test_all_that_the_engine_sets_is_reserved() -> None:
    """The engine never silently overrides a user's property."""
    customary = {"session.timeout.ms": 12_345, "socket.timeout.ms": "20000", "reconnect.backoff.max.ms": "5000"}

    def made(theirs: dict[str, str]) -> dict[str, object]:
        options = EngineOptions(ClusterName("eu"), "h:1", theirs, "g", "i", "earliest", "read_committed", 1 << 20)
        return consumer_properties(options)

    assert made({}).keys() - RESERVED.keys() == customary.keys(), "the user's own value of these has to count"
    assert made({name: str(value) for name, value in customary.items()}).items() >= customary.items()


def test_every_unknown_property_is_found() -> None:
    properties = {"bogus": "1", "client.id": "x", "socket.timeout.ms": "abc", "bogus.too": "2"}
    assert dict(refused_properties(properties)) == {
        "bogus": 'librdkafka: No such configuration property: "bogus"',
        "socket.timeout.ms": 'librdkafka: Invalid value for configuration property "socket.timeout.ms"',
        "bogus.too": 'librdkafka: No such configuration property: "bogus.too"',
    }


def test_properties_that_do_not_go_together() -> None:
    (refused,) = refused_properties({"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512"})
    assert "librdkafka: " in refused[1]


def test_where_the_mistake_is(tmp_path: Path) -> None:
    tree = small()
    tree["clusters"][1]["properties"] = {"group.id": "x", "bogus": 1}
    assert mistakes(tmp_path, tree) == [
        "clusters[1].properties[group.id]: 'x': kafka-mesh sets this itself; see the key upstream_group_prefix",
        "clusters[1].properties.bogus: '1': librdkafka: No such configuration property: \"bogus\"",
    ]
