"""A schema registry in the style of Confluent: each value begins with the id of a schema in the registry.

Its answers about schemas can be cached: an id always stands for the same schema.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from mesh.interceptors.spi import Reject

_MAGIC: Final = b"\0"
PREFIX: Final = 5
"""The number of bytes before the payload: a zero and the id."""
_LARGEST: Final = 1 << 20
_NOT_FOUND: Final = 404


def _check_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise PydanticCustomError("registry", "the URL of a schema registry: http://HOST:PORT or https://HOST:PORT")
    return url.rstrip("/")


RegistryUrl = Annotated[str, AfterValidator(_check_url)]


class Schema(NamedTuple):
    """A registered schema. type: AVRO, JSON or PROTOBUF. has_references: True if it needs other schemas."""

    type: str
    text: str
    has_references: bool


class Registry:
    """A registry at a URL. timeout: seconds for an answer."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url: Final = url
        self._timeout: Final = timeout

    def subjects(self, id: int) -> frozenset[str]:
        """Returns the subjects of a schema; empty if there is no such schema."""
        found = self._ask(f"/schemas/ids/{id}/versions")
        return frozenset() if found is None else frozenset(str(each["subject"]) for each in found)

    def schema(self, id: int) -> Schema | None:
        """Returns the schema with this id; None if there is none."""
        found = self._ask(f"/schemas/ids/{id}")
        if found is None:
            return None
        return Schema(str(found.get("schemaType", "AVRO")), str(found["schema"]), bool(found.get("references")))

    def _ask(self, path: str) -> Any:
        try:
            # The operator chose the URL.
            with urllib.request.urlopen(self._url + path, timeout=self._timeout) as response:
                return json.loads(response.read(_LARGEST))
        except urllib.error.HTTPError as problem:
            if problem.code == _NOT_FOUND:
                return None
            raise


def id_of(value: bytes) -> int:
    """Returns the id of the schema at the beginning of a value. Raises Reject."""
    if len(value) < PREFIX or value[:1] != _MAGIC:
        raise Reject("a value that does not begin with the id of a schema")
    return int.from_bytes(value[1:PREFIX], "big")
