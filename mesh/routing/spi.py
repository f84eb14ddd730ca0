"""What people implement who write routers; docs/routers.md shows how.

There are three kinds. An `EntityRouter` says which route a name belongs to, and what the name is there; the protocol is
done for it: metadata, producing, consuming, groups, transactions, errors. A `ConnectionRouter` chooses one route for a
whole connection. A `Router` answers each request itself. A `RouterFactory` makes routers of one type; it is found as an
entry point of the group `kafka_mesh.routers`, by whose name `type` in a configuration calls it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel

from mesh.routing.graph import Decides
from mesh.routing.names import RouteName, RouterName
from mesh.security.principals import Principal
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree

ENTRY_POINTS: Final = "kafka_mesh.routers"
Served: TypeAlias = Mapping[ApiKey, tuple[int, int]]
"""APIs, each with its lowest and its highest version."""


class Place(NamedTuple):
    """The place of a topic: the route, and its name behind it."""

    route: RouteName
    topic: str


class EntityRouter(ABC):
    """A router that goes by names. One serves all connections of a virtual cluster, so it keeps nothing of any.

    Its methods are called for each request that names something, with names that peers choose: they do no IO, and what
    they remember is bounded. They say the same each time; in every process too.
    """

    @property
    @abstractmethod
    def default(self) -> RouteName:
        """The home of what no rule names, and of requests that concern a whole cluster.

        Producers without a transactional id have their ids from there. A change of it is a change of the cluster that
        numbers them: a retry at that moment may be written twice.
        """

    @abstractmethod
    def topic(self, name: str) -> Place | None:
        """Where the topic is that clients call so. None: there is no such topic, and it cannot be created."""

    @abstractmethod
    def topics_of(self, route: RouteName, names: Sequence[str]) -> Mapping[str, str]:
        """What clients call these topics of a route; those left out are hidden.

        The inverse of `topic`: a topic is shown only if `topic(shown)` leads back to it.
        """

    def group(self, id: str) -> RouteName:
        """The home of a group, of whatever protocol: its members are there. Its offsets are where the topics are."""
        return self.default

    def transactional_id(self, id: str) -> RouteName:
        """The home of a transaction: all that it writes, and the groups whose offsets it commits, are there."""
        return self.default

    def renames(self, route: RouteName) -> bool:
        """Whether any topic of a route is called otherwise by clients. False saves work for each Fetch and Produce."""
        return True

    def serves(self) -> Served | None:
        """What clients may use of what the runtime serves; None: all of it."""
        return None


@dataclass(frozen=True, slots=True)
class Client:
    """The client at the other end of a connection.

    principal: None as long as a client that has to authenticate with SASL has not. host: its IP address. listener: the
    name of the virtual cluster that it came to. certificate: the subject of its certificate (RFC 4514).
    """

    principal: Principal | None
    client_id: str | None
    host: str
    listener: str
    certificate: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """No route is for this client: its connection is closed, and the reason is logged."""

    reason: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """Which route it is depends on the principal, which is not known yet. Until then the client is shown the APIs that
    all routes serve."""


class ConnectionRouter(ABC):
    """A router that chooses one route for a whole connection. One serves all connections of a virtual cluster."""

    @abstractmethod
    def choose(self, client: Client) -> RouteName | Refused | Undecided:
        """Asked before the first answer, and again when the principal is known, if it, or one behind it, was Undecided.
        Who is Undecided then is refused."""

    def serves(self) -> Served | None:
        """What clients may use of what the runtime serves; None: all of it."""
        return None


@dataclass(frozen=True, slots=True)
class Node:
    """A broker behind a route. id: as clients see it; None: any of them."""

    route: RouteName
    id: int | None


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a client, or one to send. body: as `mesh.wire.trees` has it, with Kafka's names in small letters, as
    in `timeout_ms`. wants_answer: False for a Produce with acks=0."""

    api: ApiKey
    version: int
    body: Tree
    wants_answer: bool = True


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer the client. body: in the version of its request."""

    body: Tree


@dataclass(frozen=True, slots=True)
class RespondWithoutReply:
    """The request is done, and wants no answer: a Produce with acks=0."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection of the client; the reason is logged."""

    reason: str


RouterResult: TypeAlias = Respond | RespondWithoutReply | Disconnect


class RouteUnavailable(Exception):
    """A node behind a route did not answer in time, or could not be reached."""


class RouterContext(Protocol):
    """The means of a Router while it has a request.

    node: the broker that the client believes it speaks to; None where it came to the bootstrap address. session_id: of
    the connection, for logs.
    """

    @property
    def node(self) -> Node | None: ...

    @property
    def session_id(self) -> str: ...

    @property
    def principal(self) -> Principal: ...

    @property
    def client_id(self) -> str | None: ...

    def any_node(self, route: RouteName) -> Node:
        """Another one each time, as far as there are several. Raises KeyError for a route that the router has not."""

    def node_for_id(self, id: int) -> Node | None:
        """None: no node has this id."""

    async def send(self, node: Node, request: Request) -> Tree:
        """The answer, with the ids and addresses that clients see in it. Several may be on their way at once.

        An empty one for a request that wants no answer. Raises RouteUnavailable after `request_timeout`.
        """

    def error(self, request: Request, code: int) -> Respond:
        """The answer of the API in which all that was asked for has this error code."""


class Router(ABC):
    """A router that answers each request itself. Each connection has one of its own.

    An exception closes the connection, and is logged with the name of the router. Answers leave in the order of the
    requests, whichever is there first.
    """

    @abstractmethod
    async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
        """Called for what is not in `static_routes`, but ApiVersions and authentication. Several calls may be at work
        at once, as clients send several requests."""

    def static_routes(self) -> Mapping[ApiKey, RouteName]:
        """APIs that always go to one route: neither their requests nor their answers are decoded. Asked once."""
        return {}

    def serves(self) -> Served | None:
        """What clients may use of what the runtime serves; None: all of it. Asked once."""
        return None

    def close(self) -> None:  # noqa: B027 - not every router has something to close
        """The connection is closed."""


@dataclass(frozen=True, slots=True)
class FactoryContext:
    """The place of a router in the configuration. name: of the router in the configuration."""

    name: RouterName
    virtual_cluster: str
    routes: tuple[RouteName, ...]


@dataclass(frozen=True, slots=True)
class ConfigMistake:
    """Something wrong in the config of a router. path: keys and indexes below `config`. allowed: what it should be."""

    path: tuple[str | int, ...]
    value: object
    allowed: str


AnyRouter: TypeAlias = EntityRouter | ConnectionRouter | Router
ConfigT = TypeVar("ConfigT", bound=BaseModel)
SharedT = TypeVar("SharedT")


class RouterFactory(ABC, Generic[ConfigT, SharedT]):
    """The factory of the routers of one type. An entry point names a class that needs no arguments.

    config: the model of what stands below `config` in the configuration of a router; its mistakes are told with their
    keys. decides: what its routers decide on, and so of which kind they are.
    """

    config: type[ConfigT]
    decides: Decides

    def mistakes(self, config: ConfigT, routes: Sequence[RouteName]) -> Iterator[ConfigMistake]:
        """What the model cannot see: above all, routes that the router has not."""
        return iter(())

    def shares_clusters(self, config: ConfigT) -> bool:
        """Whether several routes of a router may lead to one cluster."""
        return self.decides is Decides.CONNECTIONS

    @abstractmethod
    def initialize(self, context: FactoryContext, config: ConfigT) -> SharedT:
        """What the routers of one virtual cluster share. Called once for each that leads to the router; an exception
        ends the start, or refuses a reload."""

    @abstractmethod
    def create_router(self, context: FactoryContext, shared: SharedT) -> AnyRouter:
        """A router of the kind that `decides` says: a Router for each connection; of the others one for each virtual
        cluster, behind `initialize`."""

    def close(self, shared: SharedT) -> None:
        """The virtual cluster has ended, or its configuration has changed, and the last of its routers is closed."""
