"""The first message on most connections: ApiVersions."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    """client_software_name, client_software_version: from v3 on (KIP-511)."""

    client_software_name: str = ""
    client_software_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    api_key: int
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse:
    error_code: ErrorCode = ErrorCode.NONE
    api_keys: tuple[ApiVersion, ...]
    throttle_time_ms: int = 0
