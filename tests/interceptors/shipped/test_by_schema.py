"""`json_schema` and `avro`: they reject values that do not match their schema, from a file and from a registry."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import fastavro
import pytest
from pydantic import ValidationError

from mesh.interceptors.shipped.avro import Avro
from mesh.interceptors.shipped.checked_by_schema import BySchemaConfig
from mesh.interceptors.shipped.json_schema import JsonSchema
from mesh.interceptors.spi import KEEP, CannotBegin, Interceptor, Record, Reject
from tests.interceptors.fakes import PRODUCE
from tests.interceptors.shipped.registry import FakeRegistry, running

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}, {"name": "by", "type": "string"}]}
JSON = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}, "additionalProperties": False}


def encoded(**fields: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(AVRO), fields)
    return written.getvalue()


Kind: TypeAlias = type[JsonSchema] | type[Avro]
GOOD = encoded(id=1, by="x")
CASES: list[tuple[Kind, object, bytes, bytes]] = [
    (JsonSchema, JSON, b'{"id":1}', b'{"id":"1"}'),
    (Avro, AVRO, GOOD, GOOD[:-1]),
]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with running() as registry:
        yield registry


def of_file(kind: Kind, folder: Path, schema: object) -> Interceptor:
    file = folder / "schema"
    file.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return kind(BySchemaConfig(schema_file=file))


def is_kept(interceptor: Interceptor, value: bytes | None) -> bool:
    try:
        return interceptor.intercept(Record(None, value), PRODUCE) is KEEP
    except Reject:
        return False


@pytest.mark.parametrize(("kind", "schema", "good", "bad"), CASES)
def test_by_a_file(tmp_path: Path, kind: Kind, schema: object, good: bytes, bad: bytes) -> None:
    interceptor = of_file(kind, tmp_path, schema)
    assert is_kept(interceptor, good) and is_kept(interceptor, None)
    for value in (bad, b"", b"\xff", good + b"x"):
        assert not is_kept(interceptor, value)


@pytest.mark.parametrize(("kind", "schema", "good", "bad"), CASES)
def test_by_a_registry(registry: FakeRegistry, kind: Kind, schema: object, good: bytes, bad: bytes) -> None:
    registry.schemas[7] = {"schema": json.dumps(schema), "schemaType": kind.schema_type}
    registry.schemas[8] = {"schema": json.dumps(schema), "schemaType": "PROTOBUF"}
    interceptor = kind(BySchemaConfig(registry=registry.url))
    for _ in range(2):
        assert is_kept(interceptor, b"\0\0\0\0\7" + good) and is_kept(interceptor, None)
        for value in (b"\0\0\0\0\7" + bad, b"\0\0\0\0\11" + good, good, b"\0\0\0"):
            assert not is_kept(interceptor, value)
    assert registry.asked == ["/schemas/ids/7", "/schemas/ids/9"], "each is asked for once"
    assert not is_kept(interceptor, b"\0\0\0\0\10" + good), "another type"


def test_a_schema_with_references_is_a_failure(registry: FakeRegistry) -> None:
    registry.schemas[7] = {"schema": json.dumps(AVRO), "references": [{"name": "other"}]}
    with pytest.raises(ValueError, match="references"):
        Avro(BySchemaConfig(registry=registry.url)).intercept(Record(None, b"\0\0\0\0\7" + GOOD), PRODUCE)


def test_a_registry_that_is_down_is_a_failure(registry: FakeRegistry) -> None:
    registry.is_down = True
    with pytest.raises(OSError, match="500"):
        Avro(BySchemaConfig(registry=registry.url)).intercept(Record(None, b"\0\0\0\0\7" + GOOD), PRODUCE)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    interceptor = of_file(JsonSchema, tmp_path, JSON)
    with pytest.raises(Reject, match=r"\$\.id: 'x' is not of type 'integer'"):
        interceptor.intercept(Record(None, b'{"id":"x"}'), PRODUCE)


@pytest.mark.parametrize("kind", [JsonSchema, Avro])
def test_a_file_without_a_schema(tmp_path: Path, kind: Kind) -> None:
    for text in ("no JSON", '{"type": "nothing"}'):
        with pytest.raises(CannotBegin, match="schema_file"):
            of_file(kind, tmp_path, text)
    with pytest.raises(CannotBegin, match="can be read"):
        kind(BySchemaConfig(schema_file=tmp_path / "none"))


def test_schemas_elsewhere_are_not_fetched(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.schemas[7] = {"type": "integer"}
    interceptor = of_file(JsonSchema, tmp_path, {"$ref": f"{registry.url}schemas/ids/7"})
    with pytest.raises(Exception, match="nresolvable"):
        interceptor.intercept(Record(None, b"1"), PRODUCE)
    assert registry.asked == []


def test_one_of_both() -> None:
    for config in ({}, {"schema_file": "a", "registry": "http://b"}):
        with pytest.raises(ValidationError, match="one of schema_file and registry"):
            BySchemaConfig.model_validate(config)


def test_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(CannotBegin, match="pip install 'kafka-mesh\\[json-schema\\]'"):
        of_file(JsonSchema, tmp_path, JSON)
