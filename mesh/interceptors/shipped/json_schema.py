"""`json_schema` rejects values that are not JSON, or do not match a JSON Schema.

It needs the package `jsonschema` (`pip install 'kafka-mesh[json-schema]'`). It does not fetch schemas from elsewhere.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mesh.interceptors.shipped.checked_by_schema import BySchema, BySchemaConfig
from mesh.interceptors.spi import CannotBegin, Reject

_LONGEST: Final = 200
"""The most characters of an error message."""


class JsonSchema(BySchema[Any]):
    """An interceptor that rejects JSON that does not match its schema."""

    schema_type = "JSON"

    def __init__(self, config: BySchemaConfig) -> None:
        try:
            import jsonschema  # noqa: F401 - it is there only where somebody has asked for it
        except ImportError:
            allowed = "a type whose package is installed: pip install 'kafka-mesh[json-schema]'"
            raise CannotBegin("schema_file" if config.schema_file else "registry", "json_schema", allowed) from None
        super().__init__(config)

    def compiled(self, text: str) -> Any:
        import jsonschema
        from jsonschema_specifications import REGISTRY

        schema = json.loads(text)
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
        return kind(schema, registry=REGISTRY)  # this registry does not fetch missing schemas

    def check(self, schema: Any, payload: bytes) -> None:
        try:
            value = json.loads(payload)
        except ValueError:
            raise Reject("a value that is no JSON") from None
        for problem in schema.iter_errors(value):
            raise Reject(f"{problem.json_path}: {problem.message}"[:_LONGEST])
