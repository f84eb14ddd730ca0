"""Every field of every message is in the table, as kio and Kafka's own definitions have it."""

from __future__ import annotations

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.classification import PLACES, kind_of
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.entities.supplement import SUPPLEMENT
from mesh.wire.relayed_apis import RELAYED_APIS
from tests.integration.jars import missing_programs
from tests.wire.entities.kafka_messages import Shape, definitions, shapes_of
from tests.wire.entities.messages import MESSAGES, schema_of

NOT_DECLARED = {"node_id", "leader_id", "voter_id", "controller_id"}
"""Node fields that Kafka does not declare as such."""


def paths(fields: tuple[Field, ...], path: str = "") -> set[str]:
    inner = [paths(field.fields, f"{path}{field.name}.") for field in fields]
    return {f"{path}{field.name}" for field in fields}.union(*inner)


@pytest.mark.parametrize("api_key", RELAYED_APIS)
def test_every_field_says_what_it_holds(api_key: ApiKey) -> None:
    for version in RELAYED_APIS[api_key].all():
        for side in Direction:
            layout(api_key, version, side)


@pytest.mark.parametrize("wire_type", ["int32", "string", "uuid", "bytes"])
def test_a_field_that_nobody_has_classified_is_none_of_anything(wire_type: str) -> None:
    assert kind_of((ApiKey.FETCH, Direction.REQUEST, "topics.new"), Field("new", wire_type)) is None
    assert (
        kind_of((ApiKey.FETCH, Direction.REQUEST, "topics.new"), Field("new", wire_type, EntityKind.NONE))
        is EntityKind.NONE
    )


def test_a_field_that_nobody_has_classified_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.wire.entities.classification._NONE", frozenset())
    layout.cache_clear()  # others may have asked before; errors are not kept
    with pytest.raises(TypeError, match=r"HEARTBEAT REQUEST: nobody has said what generation_id \(int32\) holds"):
        layout(ApiKey.HEARTBEAT, 4, Direction.REQUEST)


def test_every_place_is_in_some_version() -> None:
    for api_key, side, path in PLACES:
        versions = RELAYED_APIS[api_key].all()
        assert any(path in paths(layout(api_key, version, side)) for version in versions), (api_key, side, path)


def test_the_supplement_has_what_kio_lacks_and_nothing_else() -> None:
    assert set(SUPPLEMENT) == {message for message in MESSAGES if schema_of(*message) is None}


def without_names(fields: tuple[Field, ...], shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Our shapes, without what Kafka does not declare: some nodes, and records that may be null all the same."""
    return tuple(
        ours._replace(
            entity=None if field.name in NOT_DECLARED and theirs.entity is None else ours.entity,
            is_nullable=theirs.is_nullable if ours.wire_type == "records" else ours.is_nullable,
            fields=without_names(field.fields, theirs.fields),
        )
        for field, ours, theirs in zip(fields, shapes_of(fields), shapes, strict=True)
    )


@pytest.mark.smoke
@pytest.mark.kafka
def test_the_fields_are_those_of_kafka() -> None:
    if missing := missing_programs():
        pytest.skip(f"Kafka's classes need Java 17 and Maven; not found: {', '.join(missing)}")
    for api_key, version, side in MESSAGES:
        theirs = definitions()[api_key, side].shapes(version)
        assert without_names(layout(api_key, version, side), theirs) == theirs, (api_key, version, side)


def test_a_layout_is_made_once() -> None:
    """Divided requests, and merged answers, ask for it each time."""
    assert layout(ApiKey.PRODUCE, 9, Direction.RESPONSE) is layout(ApiKey.PRODUCE, 9, Direction.RESPONSE)
