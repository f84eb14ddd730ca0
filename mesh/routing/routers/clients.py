"""The router `clients`: chooses one route for a whole connection, by properties of its client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from mesh.routing.graph import Decides
from mesh.routing.names import RouteName
from mesh.routing.routers.rules import Pattern, RuleModel, matcher, unknown_routes
from mesh.routing.spi import (
    Client,
    ConfigMistake,
    ConnectionRouter,
    FactoryContext,
    Refused,
    RouterFactory,
    Undecided,
)
from mesh.security.principals import Principal
from mesh.security.rules import canonical_host

_CONDITIONS: Final = ("client_ids", "principals", "hosts", "listeners", "certificates")
_Network: TypeAlias = IPv4Network | IPv6Network


def _check_host(host: str) -> str:
    try:
        ip_network(host)
    except ValueError:
        allowed = "an IP address such as 10.0.0.1, or a network such as 10.0.0.0/8"
        raise PydanticCustomError("host", "{allowed}", {"allowed": allowed}) from None
    return host


def _check_principal(principal: str) -> str:
    if ":" not in principal:
        raise PydanticCustomError("principal", "a pattern of TYPE:NAME, such as User:partner-*")
    return principal


Host = Annotated[str, AfterValidator(_check_host)]
PrincipalPattern = Annotated[Pattern, AfterValidator(_check_principal)]


class ClientRule(RuleModel):
    """A rule for clients that meet all of its conditions. A condition is met if any of its entries matches."""

    client_ids: tuple[Pattern, ...] = Field(
        default=(), description="Patterns of client.id; an empty one matches clients without a client.id."
    )
    principals: tuple[PrincipalPattern, ...] = Field(default=(), description="Patterns of principals.")
    hosts: tuple[Host, ...] = Field(default=(), description="Addresses and networks that clients come from.")
    listeners: tuple[Pattern, ...] = Field(default=(), description="Patterns of names of virtual clusters.")
    certificates: tuple[Pattern, ...] = Field(default=(), description="Patterns of the subjects of certificates.")
    route: RouteName = Field(description="Name of the route.")


class ClientsConfig(RuleModel):
    rules: tuple[ClientRule, ...] = Field(default=(), description="The first rule whose conditions all hold decides.")
    default: RouteName | None = Field(default=None, description="The route of all others; null refuses them.")


class _Rule:
    """A compiled rule. The condition on principals is separate, because the principal may not be known yet."""

    def __init__(self, rule: ClientRule) -> None:
        self.route = rule.route
        self._conditions = tuple(_conditions(rule))
        self._has_principal: Callable[[str], bool] | None = matcher(rule.principals) if rule.principals else None

    def holds(self, client: Client) -> bool | None:
        """Returns True if a client meets all conditions; None if that depends on the principal, which is not known
        yet."""
        if not all(condition(client) for condition in self._conditions):
            return False
        return self._has_principal is None or _known(client.principal, self._has_principal)


def _known(principal: Principal | None, matches: Callable[[str], bool]) -> bool | None:
    return None if principal is None else matches(principal)


def _conditions(rule: ClientRule) -> Iterator[Callable[[Client], bool]]:
    if rule.client_ids:
        matches_id = matcher(rule.client_ids)
        yield lambda client: matches_id(client.client_id or "")
    if rule.hosts:
        networks = tuple(map(ip_network, rule.hosts))
        yield lambda client: _is_in(client.host, networks)
    if rule.listeners:
        matches_listener = matcher(rule.listeners)
        yield lambda client: matches_listener(client.listener)
    if rule.certificates:
        matches_subject = matcher(rule.certificates)
        yield lambda client: client.certificate is not None and matches_subject(client.certificate)


def _is_in(host: str, networks: Sequence[_Network]) -> bool:
    try:
        address = ip_address(canonical_host(host))
    except ValueError:
        return False
    return any(address in network for network in networks)


class Clients(ConnectionRouter):
    """The router of a ClientsConfig."""

    def __init__(self, config: ClientsConfig) -> None:
        self._rules = tuple(map(_Rule, config.rules))
        self._default = config.default

    def choose(self, client: Client) -> RouteName | Refused | Undecided:
        for rule in self._rules:
            holds = rule.holds(client)
            if holds is None:
                return Undecided()
            if holds:
                return rule.route
        return self._default if self._default is not None else Refused("no rule is for this client")


class ClientsFactory(RouterFactory[ClientsConfig, Clients]):
    """The factory of routers of the type `clients`."""

    config = ClientsConfig
    decides = Decides.CONNECTIONS

    def mistakes(self, config: ClientsConfig, routes: Sequence[RouteName]) -> Iterator[ConfigMistake]:
        named: list[tuple[tuple[str | int, ...], RouteName]] = [
            (("rules", index, "route"), rule.route) for index, rule in enumerate(config.rules)
        ]
        if config.default is not None:
            named.append((("default",), config.default))
        elif not config.rules:
            yield ConfigMistake((), {}, "rules, default, or both: no client could connect")
        yield from unknown_routes(named, routes)
        for index, rule in enumerate(config.rules):
            if not any(getattr(rule, condition) for condition in _CONDITIONS):
                allowed = f"at least one of {', '.join(_CONDITIONS)}, or default instead"
                yield ConfigMistake(("rules", index), {}, allowed)

    def initialize(self, context: FactoryContext, config: ClientsConfig) -> Clients:
        return Clients(config)

    def create_router(self, context: FactoryContext, shared: Clients) -> Clients:
        return shared
