"""The loaded configuration: immutable, with all defaults, durations in seconds, sizes in bytes.

These models check single values; `checks` checks several together. docs/configuration.md documents each key, and a test
compares it with these models.
"""

from __future__ import annotations

from dataclasses import replace
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
from mesh.config.login import LoginConfig
from mesh.config.moves import MovesConfig
from mesh.config.otlp import OtlpConfig
from mesh.config.peers import PeersConfig
from mesh.config.pool import BY_NAME, BY_PREFIX, TOPIC, PoolConfig
from mesh.config.relay import ALL_AS_ONE, EACH_NODE, OF_EACH_LEAF, OF_ONE_CLUSTER, AnyNodes, OneNode, RelayConfig
from mesh.config.routers import TO_CLUSTER, TO_POOL, TO_ROUTER, RouterConfig, RouterTargetConfig, ToPoolConfig
from mesh.config.secrets import Environment
from mesh.config.security.model import Authorization, ListenerTls, SaslConfig, TlsConfig
from mesh.config.topologies import TopologyDescriptionsConfig
from mesh.config.values import Address, Count, Duration, Endpoint, Pattern, Scalar, SendBuffer, Size, matching
from mesh.config.worker_places import MOST_WORKERS, WorkerPlace
from mesh.interceptors.chain import InterceptorName
from mesh.records.spans import ClusterName, TopicName
from mesh.routing.producer_ids import TAG_BITS
from mesh.security.client_properties import OAUTHBEARER, TOKENS, unsupported_reason

_NAME = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "at most 100 letters, digits, dots, underscores and hyphens")
_SERVERS = matching(r"[^\s,]+(\s*,\s*[^\s,]+)*", "HOST:PORT, several of them separated by commas")
_HOST = matching(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252})", "the name of a host, without a port")

Name = Annotated[str, _NAME]


class EngineConfig(Enum):
    """The engine that reads the records of an upstream cluster."""

    AUTO = "auto"
    RAW = "raw"
    LIBRDKAFKA = "librdkafka"


_MECHANISM: Final = ("sasl.mechanism", "sasl.mechanisms")


class Look(Model):
    """The parts of records that operators with the admin token may see (`kafka-mesh look`, and the page)."""

    topics: tuple[Pattern, ...] = Field(
        default=("*",), description="Patterns of the topics whose records the mesh shows."
    )
    hide: tuple[Literal["keys", "headers", "values"], ...] = Field(default=(), description="Parts to leave out.")
    hide_headers: tuple[Pattern, ...] = Field(default=(), description="Patterns of headers whose values to leave out.")
    mask_paths: tuple[Annotated[str, StringConstraints(min_length=1)], ...] = Field(
        default=(),
        description="Names in JSON, with dots between them. Their values are hidden; so is a value that is not JSON.",
    )
    most: Annotated[Size, Field(ge=1, le=1 << 20)] = Field(
        default=64 << 10, description="Bytes to show of a key or value."
    )


class Admin(Model):
    listen: Endpoint = Field(description="Address of /metrics, /healthz and /readyz.")
    tls: TlsConfig | None = Field(default=None, description="Serve HTTPS.")
    token: Annotated[str, StringConstraints(min_length=16)] | None = Field(
        default=None, repr=False, description="The token of `Authorization: Bearer TOKEN`."
    )
    open_probes: bool = Field(default=True, description="Whether /healthz and /readyz are served without the token.")
    hosts: tuple[Annotated[str, _HOST], ...] = Field(
        default=(), description="Names under which requests without a token may reach the address."
    )
    look: Look | None = Field(
        default=None, description="Show records; without this section the mesh shows no part of them."
    )


class JournalConfig(Model):
    """The journal: which member got which records, and their outcome."""

    cluster: ClusterName = Field(description="Name of the upstream cluster that has the topic.")
    topic: Annotated[TopicName, TOPIC] = Field(description="The topic to write to.")
    create: bool = Field(
        default=False, description="Whether to create that topic, with one partition, if it is missing."
    )
    interval: Annotated[Duration, Field(le=60)] = Field(default=1.0, description="How often a page is written.")
    limit: Annotated[Count, Field(le=10_000_000)] = Field(
        default=100_000, description="Events on their way; beyond that they are dropped."
    )


class StoreConfig(Model):
    """The store of groups that have no commit metadata."""

    cluster: ClusterName = Field(description="Name of the upstream cluster that has the topic.")
    topic: Annotated[TopicName, TOPIC] = Field(description="A compacted topic; its first partition is used.")
    create: bool = Field(
        default=False, description="Whether to create that topic, with one partition, if it is missing."
    )


class LogConfig(Model):
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level to write."
    )
    format: Literal["console", "json", "auto"] = Field(
        default="auto",
        description="`console` for people, `json` for machines, `auto`: console on a terminal, else json.",
    )


class Cluster(Model):
    """An upstream cluster."""

    name: Annotated[ClusterName, _NAME] = Field(
        description="The name of this cluster in the rest of the configuration."
    )
    bootstrap_servers: Annotated[str, _SERVERS] = Field(
        description="HOST:PORT of some of its brokers, separated by commas."
    )
    engine: EngineConfig = Field(default=EngineConfig.AUTO, description="The engine that reads its records.")
    properties: dict[str, Scalar] = Field(
        default_factory=dict, repr=False, description="Passed to librdkafka as they are."
    )
    login: LoginConfig | None = Field(default=None, description="How kafka-mesh logs in with OAUTHBEARER.")
    producer_id_tag: Annotated[int, Field(ge=0, lt=1 << TAG_BITS)] | None = Field(
        default=None, description="The tag of its producer ids in other clusters of a router."
    )

    def client_properties(self) -> dict[str, str]:
        """Returns the properties of every librdkafka client of this cluster; they hold secrets."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.properties_with_mechanism()}

    def properties_with_mechanism(self) -> dict[str, str]:
        """Returns the properties, with the SASL mechanism of the login."""
        if self.login is None:
            return self.properties
        others = {name: value for name, value in self.properties.items() if name not in _MECHANISM}
        return {**others, "sasl.mechanism": OAUTHBEARER}

    def reason_against_own_connections(self) -> str | None:
        """Returns the reason why the mesh cannot make its own connections to this cluster; None if it can."""
        tokens = {} if self.login is None else {TOKENS: None}
        return unsupported_reason({**self.client_properties(), **tokens})

    @model_serializer(mode="wrap")
    def _login_only_where_it_is(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        shown: dict[str, object] = serialize(self)
        if self.login is None:
            shown.pop("login", None)
        return shown


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
"""The target of a virtual cluster: a union of models with one key each, so that a configuration has exactly one.
`mesh.app.targets` makes a target of each."""

KINDS: Final = frozenset(
    {
        *(BY_NAME, BY_PREFIX, _POOL, _RELAY, _ROUTER, TO_CLUSTER, TO_ROUTER, TO_POOL),
        *(OF_ONE_CLUSTER, OF_EACH_LEAF, EACH_NODE, ALL_AS_ONE),
    }
)
"""Names of the kinds of unions in pydantic's error locations; no key has these names."""


class Advertise(Model):
    """The addresses that clients get in place of those that the mesh listens on."""

    listen: Endpoint | None = Field(default=None, description="The address to give in place of `listen`.")
    coordinator: Endpoint | None = Field(default=None, description="The address to give in place of `coordinator`.")


def _next_port(data: dict[str, Address]) -> str:
    return str(Address(data["listen"].host, data["listen"].port + 1))


class ClientLimits(Model):
    """The limits of a virtual cluster's clients."""

    connections: Count = Field(default=10_000, description="Connections at the same time.")
    connections_per_address: Count = Field(default=5_000, description="The same, from one address.")
    request: Size | None = Field(default=None, description="Bytes of the largest request.")
    idle_timeout: Duration = Field(default=600.0, description="The time after which a silent connection is closed.")
    frame_timeout: Duration = Field(default=30.0, description="How long a request may take to arrive.")
    write_timeout: Duration = Field(default=60.0, description="How long a client may leave its answers unread.")
    unread: Size = Field(default=64 << 20, description="Bytes of answers that clients have not read.")
    send_buffer: SendBuffer = Field(
        default=256 << 10, description="Bytes that the kernel keeps for each connection until its client has them."
    )
    request_rate: Count = Field(default=1_000, description="Requests per second on one connection.")
    request_rate_per_address: Count = Field(default=2_000, description="Requests per second from one address.")


class VirtualClusterConfig(Model):
    """A virtual cluster: a listener with a target, as one kind of client sees it."""

    name: Name = Field(description="Its name in logs and metrics.")
    listen: Endpoint = Field(description="Address of the bootstrap server and leader of all partitions.")
    coordinator: Endpoint = Field(
        default_factory=_next_port, validate_default=True, description="Address of the group coordinator."
    )
    nodes: AnyNodes | None = Field(
        default=None, description="Where clients reach each node of a relay or a router, or further nodes of a pool."
    )
    advertise: Advertise = Field(default=Advertise(), description="Addresses that clients can reach.")
    limits: ClientLimits = Field(default=ClientLimits(), description="Limits of its clients.")
    tls: ListenerTls | None = Field(default=None, description="Encryption, on both addresses.")
    sasl: SaslConfig | None = Field(default=None, description="Authentication, on both addresses.")
    authorization: Authorization | None = Field(default=None, description="Rules for topics and groups.")
    listeners: tuple[ListenerConfig, ...] = Field(
        default=(), description="More addresses of a relay, each with its own nodes and TLS."
    )
    interceptors: tuple[InterceptorName, ...] = Field(
        default=(), description="Names of interceptors, in the order in which producers' records go through them."
    )
    interceptor_sequences: Size = Field(
        default=64 << 20, description="Bytes for the sequences of producers whose records interceptors may drop."
    )
    topology_descriptions: TopologyDescriptionsConfig | None = Field(
        default=None, description="Serve topology descriptions of streams groups, where the cluster does not."
    )
    moves: MovesConfig | None = Field(
        default=None, description="Allows operators to move topics between the clusters of its router."
    )
    target: TargetConfig = Field(description="The target behind it.")

    _worker: WorkerPlace | None = PrivateAttr(default=None)
    _has_peers: bool = PrivateAttr(default=False)

    @model_serializer(mode="wrap")
    def _only_what_belongs_to_it(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        shown: dict[str, object] = serialize(self)
        if not isinstance(self.target, PoolTargetConfig) and "coordinator" not in self.model_fields_set:
            shown.pop("coordinator", None)
        for key in ("nodes", "topology_descriptions", "moves"):
            if getattr(self, key) is None:
                shown.pop(key, None)
        for key in ("interceptors", "listeners"):
            if not getattr(self, key):
                shown.pop(key, None)
        if "interceptor_sequences" not in self.model_fields_set:
            shown.pop("interceptor_sequences", None)
        return shown

    def all_listeners(self) -> tuple[ConfiguredListener, ...]:
        """Returns all listeners; the first one has the virtual cluster's own keys."""
        nodes = None if isinstance(self.nodes, OneNode) else self.nodes
        first = ConfiguredListener(FIRST, (), self.listen, self.advertised_listen, nodes, self.tls)
        return (first, *(further_listener(each, index) for index, each in enumerate(self.listeners)))

    @property
    def is_one_node(self) -> bool:
        """True if clients see all nodes of a cluster as one."""
        return isinstance(self.nodes, OneNode)

    @property
    def has_coordinator(self) -> bool:
        """Returns whether there is an address for the coordinator: always for a pool, and for one node if the file has
        it."""
        is_pool = isinstance(self.target, PoolTargetConfig)
        return is_pool or (self.is_one_node and "coordinator" in self.model_fields_set)

    @property
    def has_peers(self) -> bool:
        """Returns whether other processes serve the same pools, so that node ids must belong to one process alone."""
        return self._has_peers

    @property
    def worker(self) -> WorkerPlace | None:
        """The place of this process among several that serve the same addresses; None for a single process."""
        return self._worker

    def with_peers(self) -> VirtualClusterConfig:
        """Returns the virtual cluster as a process with peers serves it."""
        configured = self.model_copy()
        configured._has_peers = True
        return configured

    def for_worker(self, worker: WorkerPlace) -> VirtualClusterConfig:
        """Returns the virtual cluster as one of several processes serves it. A pool has its own addresses in each
        process, beside the common ones: one process has all records of a member."""
        is_pool = isinstance(self.target, PoolTargetConfig)
        own: dict[str, object] = {}
        if is_pool:
            listen, coordinator = map(worker.own, (self.advertised_listen, self.advertised_coordinator))
            own = {
                "listen": worker.own(self.listen),
                "coordinator": worker.own(self.coordinator),
                "advertise": Advertise(listen=listen, coordinator=coordinator),
            }
        configured = self.model_copy(update=own)
        configured._worker = replace(worker, bootstrap=self.listen if is_pool else None)
        return configured

    @property
    def advertised_listen(self) -> Address:
        return self.advertise.listen or self.listen

    @property
    def advertised_coordinator(self) -> Address:
        return self.advertise.coordinator or self.coordinator


class Config(Model):
    """A whole configuration file."""

    admin: Admin | None = Field(default=None, description="Metrics and health over HTTP; without it there are none.")
    workers: Annotated[Count, Field(le=MOST_WORKERS)] = Field(
        default=1, description="Processes that serve the same addresses, for several cores."
    )
    peers: PeersConfig | None = Field(
        default=None, description="Other processes of the same pools, to which clients are led at a stop."
    )
    process_id: Name | None = Field(
        default=None, description="Names this process in upstream groups, so that they recognize it after a crash."
    )
    log: LogConfig = Field(default=LogConfig(), description="Log entries on standard error.")
    budget: Size = Field(default=512 << 20, description="Record bytes in memory, over all pools.")
    metadata_refresh: Duration = Field(default=5.0, description="How often to look at upstream topics.")
    drain_grace: Duration = Field(default=6.0, description="How long members have at a stop to commit their records.")
    drain_timeout: Duration = Field(default=15.0, description="How long a stop may take, `drain_grace` included.")
    journal: JournalConfig | None = Field(
        default=None, description="A journal of every delivery; without it there is none."
    )
    otlp: OtlpConfig | None = Field(default=None, description="Spans and metrics by OTLP; without it there are none.")
    store: StoreConfig | None = Field(
        default=None, description="The store for state of groups; without it, features that need it are off."
    )
    clusters: tuple[Cluster, ...] = Field(description="Upstream clusters.")
    routers: tuple[RouterConfig, ...] = Field(default=(), description="Ways from one address to several clusters.")
    interceptors: tuple[InterceptorConfig, ...] = Field(
        default=(), description="Interceptors, which check, change, drop or refuse records."
    )
    interceptor_workers: InterceptorWorkersConfig = Field(
        default=InterceptorWorkersConfig(), description="The processes in which interceptors run."
    )
    virtual_clusters: tuple[VirtualClusterConfig, ...] = Field(description="The addresses that clients connect to.")

    _environment: Environment = PrivateAttr(default=Environment())

    def model_post_init(self, context: object, /) -> None:
        """Keeps the environment of the file. context: the Environment that filled in the file, which `load` passes to
        the validation."""
        if isinstance(context, Environment):
            self._environment = context

    def all_pools(self) -> list[PoolConfig]:
        """Returns the pools of virtual clusters, and those of routes."""
        targets = [each.target for each in self.virtual_clusters]
        routes = [route.target for each in self.routers for route in each.routes]
        return [each.pool for each in (*targets, *routes) if isinstance(each, PoolTargetConfig | ToPoolConfig)]

    def for_worker(self, number: int) -> Config:
        """Returns the configuration of one of `workers` processes, numbered from 1."""
        served = self.virtual_clusters
        if self.peers is not None:
            served = tuple(each.with_peers() for each in served)
        if self.workers == 1:
            return self.model_copy(update={"virtual_clusters": served})
        worker = WorkerPlace(number)
        return self.model_copy(
            update={
                "process_id": f"{self.process_id}-{number}" if self.process_id is not None else None,
                "budget": self.budget // self.workers,
                "virtual_clusters": tuple(each.for_worker(worker) for each in served),
            }
        )

    def redacted(self) -> dict[str, object]:
        """Returns the loaded file with its keys and units, with all defaults and without secrets."""
        shown: dict[str, object] = self._environment.redact(self.model_dump(mode="json", by_alias=True))
        if not self.routers:
            del shown["routers"]
        if not self.interceptors:
            del shown["interceptors"], shown["interceptor_workers"]
        return shown
