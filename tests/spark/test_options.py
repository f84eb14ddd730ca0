from __future__ import annotations

import pytest

from pyspark_kafka_mesh.options import WrongOption, parse

NEEDED = {
    "mesh.admin.url": "http://127.0.0.1:9644/",
    "mesh.virtual.cluster": "orders",
    "subscribe": "a, b",
    "kafka.group.id": "landing",
}


def test_what_is_needed_is_enough() -> None:
    options = parse(NEEDED)
    assert (options.urls, options.topics, options.group) == (("http://127.0.0.1:9644",), ("a", "b"), "landing")
    assert (options.most, options.pieces, options.headers) == (None, 1, False)


def test_a_mesh_may_have_several_addresses() -> None:
    options = parse(NEEDED | {"mesh.admin.url": "https://one:9644, https://two:9644/"})
    assert options.urls == ("https://one:9644", "https://two:9644")


def test_keys_in_any_case() -> None:
    given = NEEDED | {"MAXOFFSETSPERTRIGGER": "5", "includeheaders": "TRUE", "minPartitions": "7"}
    options = parse(given)
    assert (options.most, options.headers, options.pieces) == (5, True, 7)


def test_properties_of_clusters() -> None:
    options = parse(NEEDED | {"kafka.eu.sasl.username": "me", "kafka.us.ssl.ca.location": "/ca"})
    assert options.clusters == {"eu": {"sasl.username": "me"}, "us": {"ssl.ca.location": "/ca"}}


def test_secrets_are_not_shown() -> None:
    shown = repr(parse(NEEDED | {"mesh.admin.token": "hidden-1", "kafka.eu.sasl.password": "hidden-2"}))
    assert "hidden" not in shown


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(WrongOption, match=f"option '{name}' is missing"):
        parse({key: value for key, value in NEEDED.items() if key != name})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mesh.admin.url": "mesh:9644"}, "allowed is http://"),
        ({"mesh.admin.url": "http://one:9644,two:9644"}, "has 'two:9644'; allowed is http://"),
        ({"maxOffsetsPerTrigger": "0"}, "'maxOffsetsPerTrigger' is '0'; allowed is a number from 1 to 100000000"),
        ({"minPartitions": "many"}, "'minPartitions' is 'many'"),
        ({"failOnDataLoss": "maybe"}, "'failOnDataLoss' is 'maybe'; allowed is true or false"),
        ({"startingOffsets": "earliest"}, "the configuration of the mesh says"),
        ({"kafka.bootstrap.servers": "x:1"}, "the mesh names the upstream clusters"),
        ({"maxofsetspertrigger": "5"}, "'maxofsetspertrigger' is not known here: mesh.admin.url, "),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, str], said: str) -> None:
    with pytest.raises(WrongOption) as problem:
        parse(NEEDED | change)
    assert said in str(problem.value)
