"""Routers with their routes, and the target `router`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
)

from mesh.config.base import Model, keys_of
from mesh.config.pool import PoolConfig
from mesh.config.values import Duration, matching
from mesh.interceptors.chain import InterceptorName
from mesh.records.spans import ClusterName
from mesh.routing.names import RouteName, RouterName

_NAME = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "at most 100 letters, digits, dots, underscores and hyphens")
TO_CLUSTER, TO_ROUTER, TO_POOL = "a route to a cluster", "a route to a router", "a route to a pool"


class ToClusterConfig(Model):
    """A cluster behind a route."""

    cluster: ClusterName = Field(description="Name of an upstream cluster.")


class ToRouterConfig(Model):
    """Another router behind a route."""

    router: RouterName = Field(description="Name of another router.")


class ToPoolConfig(Model):
    """A pool behind a route."""

    pool: PoolConfig = Field(description="A pool, as that of a virtual cluster.")


def _kind_of_target(value: object) -> str | None:
    kinds = [
        kind
        for key, kind in (("cluster", TO_CLUSTER), ("router", TO_ROUTER), ("pool", TO_POOL))
        if key in keys_of(value)
    ]
    return kinds[0] if len(kinds) == 1 else None


class RouteConfig(Model):
    """A route of a router."""

    name: Annotated[RouteName, _NAME] = Field(description="Its name in the router's config.")
    id: int = Field(description="Its part of the ids of the nodes behind it: 0 to 31.")
    target: Annotated[
        Annotated[ToClusterConfig, Tag(TO_CLUSTER)]
        | Annotated[ToRouterConfig, Tag(TO_ROUTER)]
        | Annotated[ToPoolConfig, Tag(TO_POOL)],
        Discriminator(
            _kind_of_target,
            custom_error_type="target",
            custom_error_message="a mapping with exactly one of the keys cluster, router, pool",
        ),
    ] = Field(description="The target behind it.")
    interceptors: tuple[InterceptorName, ...] = Field(
        default=(), description="Names of interceptors of the records that go through it, behind those in front of it."
    )

    @model_serializer(mode="wrap")
    def _without_empty(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        shown: dict[str, object] = serialize(self)
        if not self.interceptors:
            shown.pop("interceptors", None)
        return shown


class RouterConfig(Model):
    """A router. Virtual clusters and other routers lead to it."""

    name: Annotated[RouterName, _NAME] = Field(description="Its name in the rest of the configuration.")
    type: str = Field(description="topics, clients, or the name of an entry point of kafka_mesh.routers.")
    config: dict[str, Any] = Field(default_factory=dict, repr=False, description="The keys of its type.")
    routes: tuple[RouteConfig, ...] = Field(description="Its routes.")


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class RouterReference(Model):
    """A reference to a router by name, and how it is used."""

    name: RouterName = Field(description="Name of a router.")
    request_timeout: Duration = Field(
        default=30.0, description="How long a route may take for an answer, above what the request itself may wait."
    )


class RouterTargetConfig(Model):
    """A router behind a virtual cluster."""

    router: Annotated[RouterReference, BeforeValidator(_named, json_schema_input_type=str | RouterReference)] = Field(
        description="Several clusters as one, by a router."
    )
