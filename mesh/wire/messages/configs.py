"""Messages about configurations: mainly those of groups, for tools that inspect and change them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mesh.wire.errors import ErrorCode

GROUP_RESOURCE: Final = 32
"""The resource type of a group in Kafka's ConfigResource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResource:
    """A resource in a DescribeConfigs request. configuration_keys: None or an empty tuple asks for all."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsRequest:
    """A DescribeConfigs request. include_documentation: since v3."""

    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfigSynonym:
    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    """A configuration in DescribeConfigs. config_type, documentation: since v3."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: int
    is_sensitive: bool = False
    synonyms: tuple[DescribedConfigSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResult:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    resource_type: int
    resource_name: str
    configs: tuple[DescribedConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponse:
    throttle_time_ms: int = 0
    results: tuple[DescribeConfigsResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterableConfig:
    """A configuration to alter. config_operation: 0 for set, 1 for delete, 2 for append, 3 for subtract."""

    name: str
    config_operation: int
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResource:
    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    resource_type: int
    resource_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesRequest:
    """A ListConfigResources request. resource_types: since v1; an empty tuple asks for all types. v0 asks for client
    metrics."""

    resource_types: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigResource:
    """A resource in ListConfigResources. resource_type: since v1."""

    resource_name: str
    resource_type: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesResponse:
    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    config_resources: tuple[ConfigResource, ...] = ()
