"""The interface for authors of routers; docs/own-routers.md explains it with examples.

There are three kinds of routers. An `EntityRouter` decides by names: it gives the route of a topic, group or
transaction, and the topic's name behind that route. The mesh handles the protocol: metadata, producing, consuming,
groups, transactions, errors. A `ConnectionRouter` chooses one route for a whole connection. A `Router` answers each
request itself.

A `RouterFactory` makes routers of one type. It is an entry point of the group `kafka_mesh.routers`; the name of the
entry point is the `type` in a configuration.
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
    """The place of a topic: a route, and the topic's name behind it."""

    route: RouteName
    topic: str


class PartPlace(NamedTuple):
    """A part of a concatenated topic: a route to a cluster, the topic's name there, and the number of partitions that
    clients see of it."""

    route: RouteName
    topic: str
    width: int


class EntityRouter(ABC):
    """A router that decides by names. One object serves all connections of a virtual cluster, so it keeps no state of
    connections.

    Its methods are called for each request that contains names, and clients choose the names. So the methods do no IO,
    and remember a bounded number of names. They return the same result each time, and in every process.
    """

    @property
    @abstractmethod
    def default(self) -> RouteName:
        """The home of names without a rule, and of requests that concern a whole cluster.

        It allocates ids for producers without a transactional id. If the default changes, another cluster allocates
        them; a batch that a producer repeats at that moment may be written twice.
        """

    @abstractmethod
    def topic(self, name: str) -> Place | None:
        """Returns the place of the topic that clients call by this name. None: there is no such topic, and it cannot be
        created."""

    @abstractmethod
    def topics_of(self, route: RouteName, names: Sequence[str]) -> Mapping[str, str]:
        """Returns the clients' names of these topics of a route. Topics that are missing in the result are hidden.

        This is the inverse of `topic`: clients see a topic only if `topic(shown)` leads back to it.
        """

    def concatenated(self) -> Mapping[str, Sequence[PartPlace]]:
        """Returns the concatenated topics by clients' names, each with its parts. Clients do not see the parts as
        topics. Each part is behind another route. Called once; `topic` and `topics_of` are not called for any of these
        topics."""
        return {}

    def group(self, id: str) -> RouteName:
        """Returns the home of a group of any protocol: the cluster that has its members. The group's offsets are in the
        clusters of the topics."""
        return self.default

    def transactional_id(self, id: str) -> RouteName:
        """Returns the home of a transaction: the one cluster of all topics to which it writes, and of the groups whose
        offsets it commits."""
        return self.default

    def renames(self, route: RouteName) -> bool:
        """Returns True if clients know any topic of a route by another name. False saves work for each Fetch and
        Produce."""
        return True

    def serves(self) -> Served | None:
        """Returns the APIs and versions that clients may use, of those that the mesh serves; None for all of them."""
        return None


@dataclass(frozen=True, slots=True)
class Client:
    """The client at the other end of a connection.

    principal: None until a client that has to authenticate with SASL has done so. host: its IP address. listener: the
    name of the virtual cluster to which it connected. certificate: the subject of its certificate (RFC 4514).
    """

    principal: Principal | None
    client_id: str | None
    host: str
    listener: str
    certificate: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The result if no route is for a client: its connection is closed, and the reason is logged."""

    reason: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """The result if a choice needs the principal, which is not known yet. Until then the client sees the APIs that all
    routes serve."""


class ConnectionRouter(ABC):
    """A router that chooses one route for a whole connection. One object serves all connections of a virtual
    cluster."""

    @abstractmethod
    def choose(self, client: Client) -> RouteName | Refused | Undecided:
        """Returns the route for a client. Called before the first answer, and again when the principal is known if this
        router or one behind it was Undecided. A client that is still Undecided then is refused."""

    def serves(self) -> Served | None:
        """Returns the APIs and versions that clients may use, of those that the mesh serves; None for all of them."""
        return None


@dataclass(frozen=True, slots=True)
class Node:
    """A broker behind a route. id: the node id that clients see; None for any broker of the route."""

    route: RouteName
    id: int | None


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a client, or one for a broker. body: a tree of `mesh.wire.trees`, with Kafka's field names in snake
    case, such as `timeout_ms`. wants_answer: False for a Produce with acks=0."""

    api: ApiKey
    version: int
    body: Tree
    wants_answer: bool = True


@dataclass(frozen=True, slots=True)
class Respond:
    """The result that answers the client. body: in the version of the request."""

    body: Tree


@dataclass(frozen=True, slots=True)
class RespondWithoutReply:
    """The result of a request without an answer: a Produce with acks=0."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The result that closes the client's connection; the reason is logged."""

    reason: str


RouterResult: TypeAlias = Respond | RespondWithoutReply | Disconnect


class RouteUnavailable(Exception):
    """Raised if a node behind a route did not answer in time, or could not be reached."""


class RouterContext(Protocol):
    """The means of a Router to handle one request.

    node: the broker to which the client believes it is connected; None at the bootstrap address. session_id: identifies
    the connection in logs.
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
        """Returns a node of a route, a different one each time if there are several. Raises KeyError for a route that
        the router does not have."""

    def node_for_id(self, id: int) -> Node | None:
        """Returns the node with this id; None if there is none."""

    async def send(self, node: Node, request: Request) -> Tree:
        """Sends a request and returns the answer, with the ids and addresses that clients see. Several requests may be
        under way at once.

        The answer to a request that wants none is empty. Raises RouteUnavailable after `request_timeout`.
        """

    def error(self, request: Request, code: int) -> Respond:
        """Returns an answer in which everything requested has this error code."""


class Router(ABC):
    """A router that answers each request itself. Each connection has its own router object.

    An exception closes the connection, and is logged with the name of the router. Clients get answers in the order of
    their requests, even if a later one is ready first.
    """

    @abstractmethod
    async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
        """Answers a request. Called for all requests that are not in `static_routes`, except ApiVersions and
        authentication. Several calls may run at once, since clients send several requests."""

    def static_routes(self) -> Mapping[ApiKey, RouteName]:
        """Returns the APIs that always go to one route: neither their requests nor their answers are decoded. Called
        once."""
        return {}

    def serves(self) -> Served | None:
        """Returns the APIs and versions that clients may use, of those that the mesh serves; None for all of them.
        Called once."""
        return None

    def close(self) -> None:  # noqa: B027 - not every router has something to close
        """Called when the connection is closed."""


@dataclass(frozen=True, slots=True)
class FactoryContext:
    """The place of a router in the configuration. name: the router's name. virtual_cluster: the name of the virtual
    cluster that leads to it. routes: the names of its routes."""

    name: RouterName
    virtual_cluster: str
    routes: tuple[RouteName, ...]


@dataclass(frozen=True, slots=True)
class ConfigMistake:
    """A mistake in the config of a router. path: keys and indexes below `config`. allowed: a description of the allowed
    values."""

    path: tuple[str | int, ...]
    value: object
    allowed: str


AnyRouter: TypeAlias = EntityRouter | ConnectionRouter | Router
ConfigT = TypeVar("ConfigT", bound=BaseModel)
SharedT = TypeVar("SharedT")


class RouterFactory(ABC, Generic[ConfigT, SharedT]):
    """The factory of the routers of one type. An entry point names a class that needs no arguments.

    config: the model of a router's `config` section; mistakes in it are reported with their keys. decides: the kind of
    its routers.
    """

    config: type[ConfigT]
    decides: Decides

    def mistakes(self, config: ConfigT, routes: Sequence[RouteName]) -> Iterator[ConfigMistake]:
        """Yields mistakes that the model cannot find: above all, routes that the router does not have."""
        return iter(())

    def shares_clusters(self, config: ConfigT) -> bool:
        """Returns True if several routes of a router may lead to one cluster."""
        return self.decides is Decides.CONNECTIONS

    @abstractmethod
    def initialize(self, context: FactoryContext, config: ConfigT) -> SharedT:
        """Makes the state that the routers of one virtual cluster share. Called once for each virtual cluster that
        leads to the router. An exception ends the start, or refuses a reload."""

    @abstractmethod
    def create_router(self, context: FactoryContext, shared: SharedT) -> AnyRouter:
        """Makes a router of the kind that `decides` names. Called after `initialize`: for each connection if it is a
        Router, otherwise once for each virtual cluster."""

    def close(self, shared: SharedT) -> None:
        """Called when the virtual cluster has ended or its configuration has changed, and the last of its routers is
        closed."""
