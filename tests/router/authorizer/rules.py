"""Users, and the rules about them, in the forms of kafka-mesh and of a broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

MINE, OTHER = "mine", "other"
"""Names of groups and transactional ids; MINE is a topic, too."""
SECRET, PUBLIC, MISSING = "secret", "public.x", "missing"
CLUSTER: Final = "kafka-cluster"
USERS: Final = ("nobody", "reader", "owner", "describer", "denied", "clerk", "operator")

_ALL_MINE: Final = {"topics": [MINE, "mine-new"], "groups": [MINE], "transactional_ids": [MINE]}
RULES: Final[list[dict[str, Any]]] = [
    {"principals": ["User:reader"], "topics": [MINE], "groups": [MINE]},
    {"principals": ["User:reader"], "transactional_ids": [MINE], "operations": ["describe"]},
    {"principals": ["User:reader"], "topics": ["public."], "groups": ["public."], "pattern_type": "prefixed"},
    {"principals": ["User:owner"], **_ALL_MINE, "operations": ["all"]},
    {
        "principals": ["User:describer"],
        "topics": ["*"],
        "groups": ["*"],
        "transactional_ids": ["*"],
        "cluster": True,
        "operations": ["describe", "describe_configs"],
    },
    {"principals": ["User:denied"], **_ALL_MINE, "topics": ["*"], "cluster": True, "operations": ["all"]},
    {
        "principals": ["User:denied"],
        "permission": "deny",
        "topics": [SECRET, MISSING],
        "operations": ["read", "write", "create", "delete", "alter", "alter_configs"],
    },
    {
        "principals": ["User:denied"],
        "permission": "deny",
        "topics": ["pub"],
        "pattern_type": "prefixed",
        "operations": ["describe"],
    },
    {
        "principals": ["User:clerk"],
        "topics": ["*"],
        "groups": [MINE],
        "transactional_ids": [MINE],
        "operations": ["write", "delete", "alter", "alter_configs"],
    },
    {"principals": ["User:operator"], "cluster": True, "operations": ["all"]},
]

_KINDS: Final = (
    (ResourceType.TOPIC, "topics"),
    (ResourceType.GROUP, "groups"),
    (ResourceType.TRANSACTIONAL_ID, "transactional_ids"),
)


def bindings() -> Iterator[AclBinding]:
    """The same rules in a broker's form."""
    for rule in RULES:
        permission = AclPermissionType.DENY if rule.get("permission") == "deny" else AclPermissionType.ALLOW
        pattern = ResourcePatternType.PREFIXED if "pattern_type" in rule else ResourcePatternType.LITERAL
        named = [(kind, name, pattern) for kind, key in _KINDS for name in rule.get(key, ())]
        if rule.get("cluster"):
            named.append((ResourceType.BROKER, CLUSTER, ResourcePatternType.LITERAL))
        for kind, name, each in named:
            for principal in rule["principals"]:
                for operation in rule.get("operations", ["read"]):
                    if _is_possible(kind, operation):
                        wanted = AclOperation[operation.upper()]
                        yield AclBinding(kind, name, each, principal, "*", wanted, permission)


_NOT_OF_GROUPS: Final = {"write", "create", "alter", "cluster_action", "idempotent_write"}
_OF_TRANSACTIONS: Final = {"describe", "write", "all"}
_NOT_OF_CLUSTER: Final = {"read", "write", "delete"}


def _is_possible(kind: ResourceType, operation: str) -> bool:
    """Brokers refuse an ACL for an operation that such a resource does not have."""
    match kind:
        case ResourceType.GROUP:
            return operation not in _NOT_OF_GROUPS
        case ResourceType.TRANSACTIONAL_ID:
            return operation in _OF_TRANSACTIONS
        case ResourceType.BROKER:
            return operation not in _NOT_OF_CLUSTER
        case _:
            return operation not in ("cluster_action", "idempotent_write")
