"""The types of interceptors that ship, one in each file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mesh.interceptors.shipped.avro import Avro
from mesh.interceptors.shipped.drop_headers import DropHeaders
from mesh.interceptors.shipped.encrypt import Encrypt
from mesh.interceptors.shipped.filter import Filter
from mesh.interceptors.shipped.json_schema import JsonSchema
from mesh.interceptors.shipped.mask import Mask
from mesh.interceptors.shipped.sample import Sample
from mesh.interceptors.shipped.schema_id import SchemaId
from mesh.interceptors.shipped.size import Size
from mesh.interceptors.shipped.stamp import Stamp
from mesh.interceptors.spi import Interceptor

SHIPPED: Final[Mapping[str, type[Interceptor]]] = MappingProxyType(
    {
        "avro": Avro,
        "drop_headers": DropHeaders,
        "encrypt": Encrypt,
        "filter": Filter,
        "json_schema": JsonSchema,
        "mask": Mask,
        "sample": Sample,
        "schema_id": SchemaId,
        "size": Size,
        "stamp": Stamp,
    }
)
"""Interceptors by their `type` in the configuration."""
