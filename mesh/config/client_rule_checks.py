"""Finds rules of routers of the type `clients` that no client of the virtual clusters in front of them can match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import ValidationError

from mesh.config.finding import Finding
from mesh.config.graphs import routers_behind
from mesh.config.mistakes import KeyPath
from mesh.config.model import Config, VirtualClusterConfig
from mesh.config.router_types import UnknownRouterType, factory_of
from mesh.config.routers import RouterTargetConfig
from mesh.routing.names import RouterName
from mesh.routing.routers.clients import ClientRule, ClientsConfig, ClientsFactory
from mesh.routing.routers.rules import matcher
from mesh.security.principals import ANONYMOUS


def check_client_rules(config: Config) -> Iterator[Finding]:
    for index, router in enumerate(config.routers):
        try:
            if not isinstance(factory_of(router.type), ClientsFactory):
                continue
            rules = ClientsConfig.model_validate(router.config).rules
        except (UnknownRouterType, ValidationError):
            continue  # the check of each router reports it
        leading = _leading_to(config, router.name)
        for number, rule in enumerate(rules if leading else ()):
            yield from _rule(rule, leading, ("routers", index, "config", "rules", number))


def _leading_to(config: Config, name: RouterName) -> list[VirtualClusterConfig]:
    return [
        each
        for each in config.virtual_clusters
        if isinstance(each.target, RouterTargetConfig)
        and any(router.name == name for router in routers_behind(config.routers, each.target.router.name))
    ]


def _rule(rule: ClientRule, leading: Sequence[VirtualClusterConfig], path: KeyPath) -> Iterator[Finding]:
    others: tuple[KeyPath, ...] = (("virtual_clusters",), path[:2])
    asks_for_certificates = any(each.tls is not None and each.tls.client_authentication != "none" for each in leading)
    if rule.principals and not asks_for_certificates and all(each.sasl is None for each in leading):
        allowed = f"a pattern of {ANONYMOUS}: without sasl and certificates every client is User:ANONYMOUS"
        yield from _unmet(rule.principals, [ANONYMOUS], (*path, "principals"), allowed, others)
    if rule.certificates and not asks_for_certificates:
        allowed = "left out: no virtual cluster that leads here has tls with client_authentication"
        yield Finding((*path, "certificates", 0), rule.certificates[0], allowed, others)
    if rule.listeners:
        names = [each.name for each in leading]
        allowed = f"a pattern of the name of a virtual cluster that leads here: {', '.join(names)}"
        yield from _unmet(rule.listeners, names, (*path, "listeners"), allowed, others)


def _unmet(
    patterns: Sequence[str], names: Sequence[str], path: KeyPath, allowed: str, others: tuple[KeyPath, ...]
) -> Iterator[Finding]:
    """Yields these patterns, if none of them matches any of the names."""
    if not any(map(matcher(patterns), names)):
        yield from (Finding((*path, index), pattern, allowed, others) for index, pattern in enumerate(patterns))
