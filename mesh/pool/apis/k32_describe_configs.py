"""DescribeConfigs: v1-v4

Behaviour:
* Returns the configurations of groups (resource type 32) that share groups have (mesh.pool.common.group_configs), in
  the order of their names: all, or the named ones. A value that is set for the group comes first, then that of the
  mesh's configuration, then Kafka's default.
* A resource of another type gets INVALID_REQUEST with a message. While the store is being read a group gets
  COORDINATOR_LOAD_IN_PROGRESS.

Version notes:
* v3: types and meanings. v4: flexible (KIP-482).

Ignored: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

from mesh.apis.api import Api, as_it_is
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.group_configs import LOADING, refusal
from mesh.pool.apis.tools import notice
from mesh.pool.common.effects import Effect
from mesh.pool.common.group_configs import GROUP_CONFIGS, GroupConfig, Overrides
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import ShareSettings
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribedConfig,
    DescribedConfigSynonym,
)


class ConfigSource(IntEnum):
    """Kafka's DescribeConfigsResponse.ConfigSource, without the values that are not used here."""

    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


def handle(context: PoolContext, request: DescribeConfigsRequest) -> Sequence[Effect]:
    notice(context)
    results = tuple(_result(context, request, each) for each in request.resources)
    return context.answer(DescribeConfigsResponse(results=results))


def _result(
    context: PoolContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    error, message = refusal(context, kind, name)
    if error is ErrorCode.NONE and context.core.kept_share_groups.is_loading:
        error, message = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, LOADING
    if error is not ErrorCode.NONE:
        return DescribeConfigsResult(error_code=error, error_message=message, resource_type=kind, resource_name=name)
    asked = frozenset(resource.configuration_keys or GROUP_CONFIGS)
    overrides = context.core.kept_share_groups.overrides(GroupId(name))
    configured = context.core.configured_share_settings
    configs = tuple(
        _config(request, each, overrides, configured) for each in GROUP_CONFIGS.values() if each.name in asked
    )
    return DescribeConfigsResult(resource_type=kind, resource_name=name, configs=configs)


def _config(
    request: DescribeConfigsRequest, config: GroupConfig, overrides: Overrides, configured: ShareSettings
) -> DescribedConfig:
    synonyms = tuple(_synonyms(config, overrides, configured))
    return DescribedConfig(
        name=config.name,
        value=synonyms[0].value,
        config_source=synonyms[0].source,
        synonyms=synonyms if request.include_synonyms else (),
        config_type=config.type,
        documentation=config.documentation if request.include_documentation else None,
    )


def _synonyms(config: GroupConfig, overrides: Overrides, configured: ShareSettings) -> Iterator[DescribedConfigSynonym]:
    """Yields the values of a configuration by their origin: first the effective one, then those that it overrides. A
    broker's keys begin with "group."."""
    if (value := overrides.get(config.name)) is not None:
        yield DescribedConfigSynonym(name=config.name, value=value, source=ConfigSource.DYNAMIC_GROUP_CONFIG)
    if (value := config.text(configured)) != config.default:
        source = ConfigSource.STATIC_BROKER_CONFIG
        yield DescribedConfigSynonym(name=f"group.{config.name}", value=value, source=source)
    yield DescribedConfigSynonym(name=f"group.{config.name}", value=config.default, source=ConfigSource.DEFAULT_CONFIG)


API = Api(ApiKey.DESCRIBE_CONFIGS, APIS[ApiKey.DESCRIBE_CONFIGS], handle, as_it_is)
