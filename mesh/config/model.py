"""The configuration as the program sees it: immutable, every default filled in, durations in seconds, sizes in bytes.

What one value may be is said here; what several of them must be together is in `checks`. Each key is documented in
docs/configuration.md, which a test compares with these models.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import (
    Discriminator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    StringConstraints,
    Tag,
    model_serializer,
)

from mesh.config.base import Model, keys_of
from mesh.config.interceptors import InterceptorConfig, InterceptorWorkersConfig
from mesh.config.listeners import FIRST, ConfiguredListener, ListenerConfig, further_listener
from mesh.config.pool import BY_NAME, BY_PREFIX, TOPIC, PoolConfig
from mesh.config.relay import OF_EACH_LEAF, OF_ONE_CLUSTER, NodesConfig, RelayConfig
from mesh.config.routers import TO_CLUSTER, TO_POOL, TO_ROUTER, RouterConfig, RouterTargetConfig, ToPoolConfig
from mesh.config.secrets import Environment
from mesh.config.security.model import Authorization, ListenerTls, SaslConfig, TlsConfig
from mesh.config.topologies import TopologyDescriptionsConfig
from mesh.config.values import Address, Count, Duration, Endpoint, Scalar, SendBuffer, Size, matching
from mesh.interceptors.chain import InterceptorName
from mesh.records.spans import ClusterName, TopicName
from mesh.routing.producer_ids import TAG_BITS

_NAME = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "at most 100 letters, digits, dots, underscores and hyphens")
_SERVERS = matching(r"[^\s,]+(\s*,\s*[^\s,]+)*", "HOST:PORT, several of them separated by commas")

Name = Annotated[str, _NAME]


class EngineConfig(Enum):
    """What reads the records of an upstream cluster."""

    AUTO = "auto"
    RAW = "raw"
    LIBRDKAFKA = "librdkafka"


class Admin(Model):
    listen: Endpoint = Field(description="Address of /metrics, /healthz and /readyz.")
    tls: TlsConfig | None = Field(default=None, description="Serve HTTPS.")
    token: Annotated[str, StringConstraints(min_length=16)] | None = Field(
        default=None, repr=False, description="What requests carry as `Authorization: Bearer TOKEN`."
    )
    open_probes: bool = Field(default=True, description="Whether /healthz and /readyz are served without the token.")


class JournalConfig(Model):
    """A journal of who was given what, and what became of it."""

    cluster: ClusterName = Field(description="Name of the upstream cluster that keeps it.")
    topic: Annotated[TopicName, TOPIC] = Field(description="Where it is written.")
    create: bool = Field(default=False, description="Whether to make that topic, with one partition, if it is missing.")
    interval: Annotated[Duration, Field(le=60)] = Field(default=1.0, description="How often a page is written.")
    limit: Annotated[Count, Field(le=10_000_000)] = Field(
        default=100_000, description="Events on their way; beyond it they are dropped, which is an event itself."
    )


class StoreConfig(Model):
    """What the mesh keeps of groups that have no commit metadata."""

    cluster: ClusterName = Field(description="Name of the upstream cluster that keeps it.")
    topic: Annotated[TopicName, TOPIC] = Field(description="A compacted topic; its first partition is used.")
    create: bool = Field(default=False, description="Whether to make that topic, with one partition, if it is missing.")


class LogConfig(Model):
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level that is written."
    )
    format: Literal["console", "json", "auto"] = Field(
        default="auto",
        description="`console` for people, `json` for machines, `auto`: console on a terminal, else json.",
    )


class Cluster(Model):
    """An upstream cluster."""

    name: Annotated[ClusterName, _NAME] = Field(description="What the rest of the configuration calls this cluster.")
    bootstrap_servers: Annotated[str, _SERVERS] = Field(
        description="HOST:PORT of some of its brokers, separated by commas."
    )
    engine: EngineConfig = Field(default=EngineConfig.AUTO, description="What reads its records.")
    properties: dict[str, Scalar] = Field(
        default_factory=dict, repr=False, description="Passed to librdkafka as they are."
    )
    producer_id_tag: Annotated[int, Field(ge=0, lt=1 << TAG_BITS)] | None = Field(
        default=None, description="What its producer ids carry in other clusters of a router."
    )

    def client_properties(self) -> dict[str, str]:
        """What every librdkafka client of this cluster is made with; holds secrets."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.properties}


class PoolTargetConfig(Model):
    """A pool behind a virtual cluster."""

    pool: PoolConfig = Field(description="Share records between the members of each group.")


class RelayTargetConfig(Model):
    """A relay behind a virtual cluster."""

    relay: RelayConfig = Field(description="Pass everything on to one cluster, and its answers back.")


def _kind_of_target(value: object) -> str | None:
    keys = keys_of(value)
    kinds = [kind for key, kind in (("pool", _POOL), ("relay", _RELAY), ("router", _ROUTER)) if key in keys]
    return kinds[0] if len(kinds) == 1 else None


_POOL, _RELAY, _ROUTER = "a pool", "a relay", "a router"


TargetConfig: TypeAlias = Annotated[
    Annotated[PoolTargetConfig, Tag(_POOL)]
    | Annotated[RelayTargetConfig, Tag(_RELAY)]
    | Annotated[RouterTargetConfig, Tag(_ROUTER)],
    Discriminator(
        _kind_of_target,
        custom_error_type="target",
        custom_error_message="a mapping with exactly one of the keys pool, relay, router",
    ),
]
"""What a virtual cluster does with its clients' requests: a union of models of one key each, so that exactly one is
given. `mesh.app.targets` makes a target of each."""

KINDS: Final = frozenset(
    {BY_NAME, BY_PREFIX, _POOL, _RELAY, _ROUTER, TO_CLUSTER, TO_ROUTER, TO_POOL, OF_ONE_CLUSTER, OF_EACH_LEAF}
)
"""How pydantic's error locations name the kinds of unions; no key has these names."""


class Advertise(Model):
    """What clients are told to connect to, where that is not the address listened on."""

    listen: Endpoint | None = Field(default=None, description="In place of `listen`.")
    coordinator: Endpoint | None = Field(default=None, description="In place of `coordinator`.")


def _next_port(data: dict[str, Address]) -> str:
    return str(Address(data["listen"].host, data["listen"].port + 1))


class ClientLimits(Model):
    """How much of a virtual cluster its clients may use."""

    connections: Count = Field(default=10_000, description="Connections at the same time.")
    connections_per_address: Count = Field(default=5_000, description="The same, from one address.")
    request: Size | None = Field(default=None, description="Bytes of the largest request.")
    idle_timeout: Duration = Field(default=600.0, description="After which a silent connection is closed.")
    frame_timeout: Duration = Field(default=30.0, description="How long a request may take to arrive.")
    write_timeout: Duration = Field(default=60.0, description="How long a client may read nothing of its answers.")
    unread: Size = Field(default=64 << 20, description="Bytes of answers that clients have not read.")
    send_buffer: SendBuffer = Field(
        default=256 << 10, description="Bytes that the kernel keeps for each connection until its client has them."
    )
    request_rate: Count = Field(default=1_000, description="Requests per second on one connection.")
    request_rate_per_address: Count = Field(default=2_000, description="Requests per second from one address.")


class VirtualClusterConfig(Model):
    """What one kind of client sees: a listener with a target."""

    name: Name = Field(description="In logs and metrics.")
    listen: Endpoint = Field(description="Address of the bootstrap server and leader of all partitions.")
    coordinator: Endpoint = Field(
        default_factory=_next_port, validate_default=True, description="Address of the group coordinator."
    )
    nodes: NodesConfig | None = Field(default=None, description="Where clients reach each node of a relay or a router.")
    advertise: Advertise = Field(default=Advertise(), description="Addresses that clients can reach.")
    limits: ClientLimits = Field(default=ClientLimits(), description="How much its clients may use.")
    tls: ListenerTls | None = Field(default=None, description="Encryption, on both addresses.")
    sasl: SaslConfig | None = Field(default=None, description="Authentication, on both addresses.")
    authorization: Authorization | None = Field(default=None, description="Who may use which topic and group.")
    listeners: tuple[ListenerConfig, ...] = Field(
        default=(), description="Further addresses of a relay, each with nodes and TLS of its own."
    )
    interceptors: tuple[InterceptorName, ...] = Field(
        default=(), description="Names of interceptors, in the order in which producers' records go through them."
    )
    topology_descriptions: TopologyDescriptionsConfig | None = Field(
        default=None, description="Serve topology descriptions of streams groups, where the cluster does not."
    )
    target: TargetConfig = Field(description="What is behind it.")

    @model_serializer(mode="wrap")
    def _only_what_belongs_to_it(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        shown: dict[str, object] = serialize(self)
        if not isinstance(self.target, PoolTargetConfig) and "coordinator" not in self.model_fields_set:
            shown.pop("coordinator", None)
        for key in ("nodes", "topology_descriptions"):
            if getattr(self, key) is None:
                shown.pop(key, None)
        for key in ("interceptors", "listeners"):
            if not getattr(self, key):
                shown.pop(key, None)
        return shown

    def all_listeners(self) -> tuple[ConfiguredListener, ...]:
        """That of its own keys first."""
        first = ConfiguredListener(FIRST, (), self.listen, self.advertised_listen, self.nodes, self.tls)
        return (first, *(further_listener(each, index) for index, each in enumerate(self.listeners)))

    @property
    def advertised_listen(self) -> Address:
        return self.advertise.listen or self.listen

    @property
    def advertised_coordinator(self) -> Address:
        return self.advertise.coordinator or self.coordinator


class Config(Model):
    """A whole configuration file."""

    admin: Admin | None = Field(default=None, description="Metrics and health over HTTP; without it there are none.")
    process_id: Name | None = Field(
        default=None, description="Names this process in upstream groups, so that it is known again after a crash."
    )
    log: LogConfig = Field(default=LogConfig(), description="What is written to standard error.")
    budget: Size = Field(default=512 << 20, description="Record bytes in memory, over all pools.")
    metadata_refresh: Duration = Field(default=5.0, description="How often upstream topics are looked at.")
    drain_grace: Duration = Field(default=6.0, description="How long members have at a stop to commit what they hold.")
    drain_timeout: Duration = Field(default=15.0, description="How long a stop may take, `drain_grace` included.")
    journal: JournalConfig | None = Field(
        default=None, description="A journal of every delivery; without it there is none."
    )
    store: StoreConfig | None = Field(
        default=None, description="Where what is kept of groups is written; without it nothing that needs it is there."
    )
    clusters: tuple[Cluster, ...] = Field(description="Upstream clusters.")
    routers: tuple[RouterConfig, ...] = Field(default=(), description="Ways from one address to several clusters.")
    interceptors: tuple[InterceptorConfig, ...] = Field(
        default=(), description="What looks at records on their way, changes them, drops them or refuses them."
    )
    interceptor_workers: InterceptorWorkersConfig = Field(
        default=InterceptorWorkersConfig(), description="The processes in which interceptors run."
    )
    virtual_clusters: tuple[VirtualClusterConfig, ...] = Field(description="What clients connect to.")

    _environment: Environment = PrivateAttr(default=Environment())

    def model_post_init(self, context: object, /) -> None:
        """context: the Environment that filled in the file, as `load` gives it to the validation."""
        if isinstance(context, Environment):
            self._environment = context

    def all_pools(self) -> list[PoolConfig]:
        """Those of virtual clusters, and those of routes."""
        targets = [each.target for each in self.virtual_clusters]
        routes = [route.target for each in self.routers for route in each.routes]
        return [each.pool for each in (*targets, *routes) if isinstance(each, PoolTargetConfig | ToPoolConfig)]

    def redacted(self) -> dict[str, object]:
        """The file as it was understood: its keys and units, defaults filled in, secrets left out."""
        shown: dict[str, object] = self._environment.redact(self.model_dump(mode="json", by_alias=True))
        if not self.routers:
            del shown["routers"]
        if not self.interceptors:
            del shown["interceptors"], shown["interceptor_workers"]
        return shown
