"""Which principal may do what with which group and topic: the semantics of Kafka's StandardAuthorizer (KIP-801).

* A rule names principals, hosts, operations and resources; a resource is named literally, by prefix, or by `*`.
* A rule that denies wins over all that allow. What no rule allows is denied, unless no rule names the resource at all
  and `allow_everyone_if_no_rule` is set (Kafka's allow.everyone.if.no.acl.found). Super users may do everything.
* READ, WRITE, DELETE and ALTER on a resource allow to DESCRIBE it too; denying them does not deny DESCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv6Address, ip_address
from typing import Final

from mesh.security.principals import EVERYBODY, Principal

ANY: Final = "*"
"""As the name of a resource or as a host: all of them."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of the type cluster."""
MOST_REMEMBERED: Final = 1_000
"""Decisions kept for one principal on one connection; peers choose the names."""


def canonical_host(host: str) -> str:
    """One spelling of an address: ::ffff:10.0.0.1, which a listener on :: sees, is 10.0.0.1. Anything else stays."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


class ResourceType(Enum):
    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"


class Operation(Enum):
    """Kafka's AclOperation, as far as a request that is served here can need it."""

    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"


IMPLIES_DESCRIBE: Final = frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER})


class Permission(Enum):
    ALLOW = "allow"
    DENY = "deny"


class PatternType(Enum):
    LITERAL = "literal"
    PREFIXED = "prefixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Kafka's AclBinding, of several principals, hosts, operations and names at once.

    hosts: IP addresses, however they are written, or `*`. names: of resources of that type; `*` with the pattern type
    LITERAL means all.
    """

    principals: frozenset[Principal]
    permission: Permission = Permission.ALLOW
    operations: frozenset[Operation]
    resource_type: ResourceType
    names: tuple[str, ...]
    pattern_type: PatternType = PatternType.LITERAL
    hosts: frozenset[str] = frozenset({ANY})

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", frozenset(map(canonical_host, self.hosts)))

    def names_resource(self, resource_type: ResourceType, name: str) -> bool:
        if resource_type is not self.resource_type:
            return False
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.names)
        return name in self.names or ANY in self.names

    def is_about(self, principal: Principal, host: str) -> bool:
        is_user = principal.startswith("User:")
        known = principal in self.principals or (is_user and EVERYBODY in self.principals)
        return known and (ANY in self.hosts or canonical_host(host) in self.hosts)

    def decides(self, operation: Operation) -> bool:
        if operation in self.operations or Operation.ALL in self.operations:
            return True
        implied = operation is Operation.DESCRIBE and self.permission is Permission.ALLOW
        return implied and not IMPLIES_DESCRIBE.isdisjoint(self.operations)


@dataclass(frozen=True, slots=True)
class Rules:
    rules: tuple[Rule, ...] = ()
    super_users: frozenset[Principal] = frozenset()
    allow_everyone_if_no_rule: bool = False

    def access(self, principal: Principal, host: str) -> Access:
        """What one client may do."""
        mine = [rule for rule in self.rules if rule.is_about(principal, host)]
        return Access(self, mine, principal in self.super_users)

    def name(self, resource_type: ResourceType, name: str) -> bool:
        """Whether any rule is about this resource, whoever it names."""
        return any(rule.names_resource(resource_type, name) for rule in self.rules)


@dataclass(slots=True, eq=False)
class Access:
    """What one principal may do from one host. Decisions are remembered: a Fetch asks for the same few topics again
    and again.

    rules: all there are, None for a listener without any: everything is allowed. mine: those about this client.
    """

    rules: Rules | None
    mine: Iterable[Rule] = ()
    is_super_user: bool = False
    _decisions: dict[tuple[Operation, ResourceType, str], bool] = field(default_factory=dict)

    @property
    def is_unlimited(self) -> bool:
        return self.rules is None or self.is_super_user

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        if self.is_unlimited:
            return True
        asked = (operation, resource_type, name)
        known = self._decisions.get(asked)
        if known is None:
            if len(self._decisions) >= MOST_REMEMBERED:
                self._decisions.clear()
            known = self._decisions[asked] = self._decide(operation, resource_type, name)
        return known

    def _decide(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        assert self.rules is not None
        deciding = {
            rule.permission
            for rule in self.mine
            if rule.decides(operation) and rule.names_resource(resource_type, name)
        }
        if Permission.DENY in deciding:
            return False
        if Permission.ALLOW in deciding:
            return True
        return self.rules.allow_everyone_if_no_rule and not self.rules.name(resource_type, name)


UNLIMITED: Final = Access(None)
"""On a listener without rules everybody may do everything."""
