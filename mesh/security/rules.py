"""Rules: which principal may do what with which resource, with the semantics of Kafka's StandardAuthorizer (KIP-801).

* A rule names principals, hosts, operations and resources; a resource is named literally, by prefix, or by `*`.
* A rule that denies takes precedence over all that allow. What no rule allows is denied, unless no rule names the
  resource at all and `allow_everyone_if_no_rule` is set (Kafka's allow.everyone.if.no.acl.found). Super users may do
  everything.
* READ, WRITE, DELETE and ALTER on a resource imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS. Denying one of
  them does not deny what it implies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv6Address, ip_address
from types import MappingProxyType
from typing import Final

from mesh.security.principals import EVERYBODY, Principal

ANY: Final = "*"
"""The name of all resources of a type, or of all hosts."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of the type cluster."""
MOST_REMEMBERED: Final = 1_000
"""The most cached decisions for one principal on one connection; clients choose the names."""
LONGEST_REMEMBERED: Final = 249
"""The longest name whose decisions are cached, in bytes: that of a topic. Longer names of groups are possible."""


def canonical_host(host: str) -> str:
    """Returns one spelling of an address: ::ffff:10.0.0.1, which a listener on :: sees, becomes 10.0.0.1. Anything else
    stays."""
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
    TRANSACTIONAL_ID = "transactional_id"


class Operation(Enum):
    """Kafka's AclOperation, without operations that no request here needs."""

    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster_action"
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"
    IDEMPOTENT_WRITE = "idempotent_write"


IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = MappingProxyType(
    {
        Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
        Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
    }
)
"""Operations, each with the operations that imply it."""

_BITS: Final[Mapping[Operation, int]] = MappingProxyType(
    {operation: 1 << code for code, operation in enumerate(Operation, 2)}
)
"""The bit of each operation in a field of authorized operations, from the codes of `AclOperation`."""
_OF_TYPE: Final[Mapping[ResourceType, frozenset[Operation]]] = MappingProxyType(
    {
        ResourceType.TOPIC: frozenset(Operation)
        - {Operation.ALL, Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE},
        ResourceType.GROUP: frozenset(
            {
                Operation.READ,
                Operation.DELETE,
                Operation.DESCRIBE,
                Operation.DESCRIBE_CONFIGS,
                Operation.ALTER_CONFIGS,
            }
        ),
        ResourceType.CLUSTER: frozenset(Operation) - {Operation.ALL, Operation.READ, Operation.WRITE, Operation.DELETE},
        ResourceType.TRANSACTIONAL_ID: frozenset({Operation.DESCRIBE, Operation.WRITE}),
    }
)
"""The operations of each type of resource (`AclEntry.supportedOperations`)."""

OF_TRANSACTIONS: Final = frozenset({Operation.ALL, Operation.WRITE, Operation.DESCRIBE})
"""The operations of a rule for transactional ids; brokers accept no other ACL for them."""


class Permission(Enum):
    ALLOW = "allow"
    DENY = "deny"


class PatternType(Enum):
    LITERAL = "literal"
    PREFIXED = "prefixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Kafka's AclBinding, for several principals, hosts, operations and names at once.

    hosts: IP addresses in any spelling, or `*`. names: names of resources of that type; `*` with the pattern type
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
        if self.names_directly(operation):
            return True
        implied_by = IMPLIED_BY.get(operation, frozenset())
        return self.permission is Permission.ALLOW and not implied_by.isdisjoint(self.operations)

    def names_directly(self, operation: Operation) -> bool:
        """Returns whether it names the operation itself, not one that implies it."""
        return operation in self.operations or Operation.ALL in self.operations


@dataclass(frozen=True, slots=True)
class Rules:
    rules: tuple[Rule, ...] = ()
    super_users: frozenset[Principal] = frozenset()
    allow_everyone_if_no_rule: bool = False

    def access(self, principal: Principal, host: str) -> Access:
        """Returns the permissions of one client."""
        mine = [rule for rule in self.rules if rule.is_about(principal, host)]
        return Access(self, mine, principal in self.super_users)

    def name(self, resource_type: ResourceType, name: str) -> bool:
        """Returns whether any rule names this resource, for any principal."""
        return any(rule.names_resource(resource_type, name) for rule in self.rules)


@dataclass(slots=True, eq=False)
class Access:
    """The permissions of one principal from one host. Decisions are cached, since each Fetch asks for the same few
    topics. Those about long names are not: a client may send names of 32 KiB, and a cache would keep them all.

    rules: all rules; None for a listener without rules, where everything is allowed. mine: the rules about this client.
    """

    rules: Rules | None
    mine: Sequence[Rule] = ()
    is_super_user: bool = False
    _decisions: dict[tuple[Operation, ResourceType, str], bool] = field(default_factory=dict)
    _allows_any: dict[tuple[Operation, ResourceType], bool] = field(default_factory=dict)

    @property
    def is_unlimited(self) -> bool:
        return self.rules is None or self.is_super_user

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        if self.is_unlimited:
            return True
        asked = (operation, resource_type, name)
        known = self._decisions.get(asked)
        if known is None:
            known = self._decide(operation, resource_type, name)
            if _is_short(name):
                if len(self._decisions) >= MOST_REMEMBERED:
                    self._decisions.clear()
                self._decisions[asked] = known
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

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Returns whether there is a name for which the operation is allowed (`Authorizer.authorizeByResourceType`).
        Implied operations do not count."""
        asked = (operation, resource_type)
        known = self._allows_any.get(asked)
        if known is None:
            known = self._allows_any[asked] = self._decide_any(operation, resource_type)
        return known

    def _decide_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        if self.allows(operation, resource_type, ""):
            return True
        about = [rule for rule in self.mine if rule.resource_type is resource_type and rule.names_directly(operation)]
        denying = [rule for rule in about if rule.permission is Permission.DENY]
        if any(ANY in rule.names for rule in denying if rule.pattern_type is PatternType.LITERAL):
            return False
        allowed = [(name, rule.pattern_type) for rule in about if rule not in denying for name in rule.names]
        return any(not any(_covers(rule, *each) for rule in denying) for each in allowed)

    def allows_all(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Returns whether the operation is allowed for every name."""
        if self.is_unlimited:
            return True
        about = [rule for rule in self.mine if rule.resource_type is resource_type and rule.decides(operation)]
        return any(ANY in rule.names for rule in about if rule.pattern_type is PatternType.LITERAL) and not any(
            rule.permission is Permission.DENY for rule in about
        )

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Returns the allowed operations as a bit field (KIP-430)."""
        allowed = (each for each in _OF_TYPE[resource_type] if self.allows(each, resource_type, name))
        return sum(_BITS[each] for each in allowed)


def _is_short(name: str) -> bool:
    return len(name) <= LONGEST_REMEMBERED and len(name.encode(errors="replace")) <= LONGEST_REMEMBERED


def _covers(denying: Rule, name: str, pattern_type: PatternType) -> bool:
    """Returns whether a rule denies all resources with this name or prefix."""
    if denying.pattern_type is PatternType.PREFIXED:
        return name.startswith(denying.names)
    return pattern_type is PatternType.LITERAL and name in denying.names


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused request, for the audit log."""

    operation: Operation
    resource_type: ResourceType
    name: str


UNLIMITED: Final = Access(None)
"""The access of every client of a listener without rules: everything is allowed."""
