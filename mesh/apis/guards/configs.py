"""Guards of requests about configurations. See `mesh.apis.authorization`.

Rules for groups guard the configurations of groups. A pool serves no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from mesh.apis.api import RequestContext
from mesh.apis.guards.result import GROUP_REFUSED, AuthorizationResult, Denied, Partial, groups_refused, may_group
from mesh.security.rules import CLUSTER_NAME, Operation, Refusal, ResourceType
from mesh.wire import messages as m
from mesh.wire.errors import ErrorCode

Resource = TypeVar("Resource", m.DescribeConfigsResource, m.AlterConfigsResource)


def describe_configs(context: RequestContext, request: m.DescribeConfigsRequest) -> AuthorizationResult:
    allowed, refused = _divided(context, Operation.DESCRIBE_CONFIGS, request.resources)
    if not refused:
        return None
    results = tuple(
        m.DescribeConfigsResult(error_code=GROUP_REFUSED, resource_type=m.GROUP_RESOURCE, resource_name=name)
        for name in refused
    )
    return Partial(
        replace(request, resources=allowed),
        lambda response: replace(response, results=response.results + results),
        groups_refused(Operation.DESCRIBE_CONFIGS, refused),
    )


def incremental_alter_configs(
    context: RequestContext, request: m.IncrementalAlterConfigsRequest
) -> AuthorizationResult:
    allowed, refused = _divided(context, Operation.ALTER_CONFIGS, request.resources)
    if not refused:
        return None
    responses = tuple(
        m.AlterConfigsResourceResponse(error_code=GROUP_REFUSED, resource_type=m.GROUP_RESOURCE, resource_name=name)
        for name in refused
    )
    return Partial(
        replace(request, resources=allowed),
        lambda response: replace(response, responses=response.responses + responses),
        groups_refused(Operation.ALTER_CONFIGS, refused),
    )


def list_config_resources(context: RequestContext, request: m.ListConfigResourcesRequest) -> AuthorizationResult:
    if context.access.allows(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    return Denied(
        m.ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (Refusal(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME),),
    )


def _divided(
    context: RequestContext, operation: Operation, resources: Sequence[Resource]
) -> tuple[tuple[Resource, ...], list[str]]:
    """Returns the allowed resources, and the names of the groups that are refused."""
    allowed: list[Resource] = []
    refused: list[str] = []
    for each in resources:
        if each.resource_type == m.GROUP_RESOURCE and not may_group(context, operation, each.resource_name):
            refused.append(each.resource_name)
        else:
            allowed.append(each)
    return tuple(allowed), refused
