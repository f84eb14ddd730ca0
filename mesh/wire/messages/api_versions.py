"""ApiVersions: the first message on most connections."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    """An ApiVersions request. client_software_name, client_software_version: since v3 (KIP-511)."""

    client_software_name: str = ""
    client_software_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    api_key: int
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFeatureKey:
    name: str
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizedFeatureKey:
    name: str
    max_version_level: int
    min_version_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse:
    """The response of ApiVersions. supported_features, finalized_features_epoch, finalized_features: since v3
    (KIP-584). An epoch of -1 means none."""

    error_code: ErrorCode = ErrorCode.NONE
    api_keys: tuple[ApiVersion, ...]
    throttle_time_ms: int = 0
    supported_features: tuple[SupportedFeatureKey, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()
