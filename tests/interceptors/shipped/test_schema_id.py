"""`schema_id`: the registry says which schemas a topic has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from mesh.interceptors.shipped.schema_id import SchemaId, SchemaIdConfig
from mesh.interceptors.spi import KEEP, Record, Reject
from tests.interceptors.fakes import PRODUCE
from tests.interceptors.shipped.registry import FakeRegistry, running

SUBJECTS = {7: ["orders-value", "others-value"], 8: ["others-value"]}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with running() as registry:
        registry.subjects = SUBJECTS
        yield registry


def config(registry: FakeRegistry, **more: object) -> SchemaIdConfig:
    return SchemaIdConfig.model_validate({"registry": registry.url, **more})


def value(id: int) -> Record:
    return Record(None, b"\0" + id.to_bytes(4, "big") + b"payload")


def test_a_schema_of_the_topic(registry: FakeRegistry) -> None:
    interceptor = SchemaId(config(registry))
    assert [interceptor.intercept(value(7), PRODUCE) for _ in range(3)] == [KEEP] * 3
    assert registry.asked == ["/schemas/ids/7/versions"]
    assert interceptor.intercept(Record(b"deleted", None), PRODUCE) is KEEP


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (value(8), "schema 8 is none of the subject orders-value"),
        (value(9), "schema 9 is none of the subject orders-value"),
        (Record(None, b"{}"), "does not begin with the id"),
        (Record(None, b"\0\0\0\7"), "does not begin with the id"),
        (Record(None, b"\1\0\0\0\7"), "does not begin with the id"),
    ],
)
def test_what_is_rejected(registry: FakeRegistry, record: Record, reason: str) -> None:
    with pytest.raises(Reject, match=reason):
        SchemaId(config(registry)).intercept(record, PRODUCE)


def test_another_subject(registry: FakeRegistry) -> None:
    assert SchemaId(config(registry, subject="others-value")).intercept(value(8), PRODUCE) is KEEP


def test_one_that_is_registered_later_is_found(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    interceptor = SchemaId(config(registry), lambda: now[0])
    for then in (0.0, 9.9):
        now[0] = then
        with pytest.raises(Reject):
            interceptor.intercept(value(9), PRODUCE)
    assert len(registry.asked) == 1
    monkeypatch.setitem(SUBJECTS, 9, ["orders-value"])
    now[0] = 10.0
    assert interceptor.intercept(value(9), PRODUCE) is KEEP


def test_a_registry_that_is_down_is_a_failure_and_no_rejection(registry: FakeRegistry) -> None:
    registry.is_down = True
    interceptor = SchemaId(config(registry))
    with pytest.raises(OSError, match="500"):
        interceptor.intercept(value(7), PRODUCE)
    registry.is_down = False
    assert interceptor.intercept(value(7), PRODUCE) is KEEP


def test_a_registry_has_a_url() -> None:
    with pytest.raises(ValidationError, match="http://HOST:PORT"):
        SchemaIdConfig.model_validate({"registry": "file:///etc/passwd"})
