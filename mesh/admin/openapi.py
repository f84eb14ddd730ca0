"""Makes an OpenAPI 3.1 document of operations whose bodies and answers are pydantic models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from mesh.admin.lease_bodies import ErrorAnswer, LeaseBody

REFERENCE = "#/components/schemas/{model}"
_FAILURES = {
    "401": "the bearer token is missing or wrong",
    "403": "the group may not be used here",
    "404": "no such virtual cluster, topic or lease",
    "413": "the body is too large",
    "422": "a value of the request is not allowed",
    "503": "not done in time; repeat the request",
}


@dataclass(frozen=True, slots=True)
class OpenApiOperation:
    """One operation of the lease API, for the document. body: the model of the request's body, None for none."""

    name: str
    method: str
    path: str
    summary: str
    body: type[LeaseBody] | None
    answer: type[LeaseBody]


def document(operations: Sequence[OpenApiOperation]) -> dict[str, Any]:
    models: list[tuple[type[LeaseBody], JsonSchemaMode]] = [(ErrorAnswer, "serialization")]
    for each in operations:
        models += [(each.body, "validation")] if each.body is not None else []
        models.append((each.answer, "serialization"))
    references, definitions = models_json_schema(models, ref_template=REFERENCE)
    failures = _failures(references[ErrorAnswer, "serialization"])
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        described: dict[str, Any] = {
            "operationId": each.name,
            "summary": each.summary,
            "security": [{"bearer": []}],
            "responses": {"200": _content("done", references[each.answer, "serialization"])} | failures,
        }
        if each.body is not None:
            body = _content("", references[each.body, "validation"])
            described["requestBody"] = {"required": True, "content": body["content"]}
        if "{lease}" in each.path:
            name = {"name": "lease", "in": "path", "required": True, "schema": {"type": "string", "maxLength": 64}}
            described["parameters"] = [name]
        paths.setdefault(each.path, {})[each.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "kafka-mesh range leases", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _content(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _failures(error: dict[str, Any]) -> dict[str, Any]:
    return {
        status: {"description": why} if status == "401" else _content(why, error) for status, why in _FAILURES.items()
    }
