"""The APIs that a listener serves itself, for every kind of target: versions and authentication."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mesh.apis import k17_sasl_handshake, k18_api_versions, k36_sasl_authenticate
from mesh.apis.api import AnyApi
from mesh.wire.apis import ApiKey

LISTENER_TABLE: Final[Mapping[ApiKey, AnyApi]] = MappingProxyType(
    {module.API.key: module.API for module in (k17_sasl_handshake, k18_api_versions, k36_sasl_authenticate)}
)
