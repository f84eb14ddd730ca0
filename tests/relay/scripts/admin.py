"""ACLs, quotas and users."""

from __future__ import annotations

from typing import Any

from tests.relay.sides import Side

_ANY, _TOPIC = 1, 2
_LITERAL, _PREFIXED, _MATCH = 3, 4, 2
_READ, _ALL_OPERATIONS = 3, 1
_ALLOW, _ALL_PERMISSIONS = 3, 1
_SCRAM_SHA_256 = 1


def _rule(name: str, **given: Any) -> dict[str, Any]:
    usual = {"resource_type": _TOPIC, "resource_name": name, "resource_pattern_type": _LITERAL, "principal": "User:x"}
    return {**usual, "host": "*", "operation": _READ, "permission_type": _ALLOW, **given}


def _filter(name: str | None, **given: Any) -> dict[str, Any]:
    usual = {"resource_type_filter": _TOPIC, "resource_name_filter": name, "pattern_type_filter": _LITERAL}
    rule = {"operation": _ALL_OPERATIONS, "permission_type": _ALL_PERMISSIONS}
    return {**usual, "principal_filter": None, "host_filter": None, **rule, **given}


def _create_acls(side: Side, version: int) -> None:
    name = side.name(f"ruled-{version}")
    for rules in (
        [_rule(name)],
        [_rule(name)],
        [_rule(name, resource_pattern_type=_PREFIXED), _rule(name, principal="nobody")],
        [_rule(name, operation=99)],
        [_rule("")],
        [_rule(name, resource_type=_ANY)],
        [],
    ):
        side.ask("create_acls", version, creations=rules)
    _forget(side, name)


def _describe_acls(side: Side, version: int) -> None:
    name = side.name(f"ruled-{version}")
    side.prepare("create_acls", 3, creations=[_rule(name), _rule(name, resource_pattern_type=_PREFIXED)])
    side.until(
        "describe_acls", 3, lambda answer: len(answer.resources) == 2, **_filter(name, pattern_type_filter=_MATCH)
    )
    for chosen in (
        _filter(name),
        _filter(name, pattern_type_filter=_MATCH),
        _filter(name, principal_filter="User:nobody", host_filter="*"),
        _filter(side.name("no-rule")),
        _filter(None, operation=99),
    ):
        side.ask("describe_acls", version, **chosen)
    _forget(side, name)


def _delete_acls(side: Side, version: int) -> None:
    name = side.name(f"ruled-{version}")
    side.prepare("create_acls", 3, creations=[_rule(name)])
    for chosen in ([_filter(name)], [_filter(name), _filter(side.name("no-rule"))], [_filter(name, operation=99)], []):
        side.ask("delete_acls", version, filters=chosen)


def _forget(side: Side, name: str) -> None:
    both = [_filter(name), _filter(name, pattern_type_filter=_PREFIXED)]
    side.prepare("delete_acls", 3, filters=both)


def _alter_client_quotas(side: Side, version: int) -> None:
    name = side.name(f"limited-{version}")

    def ask(key: str, *, remove: bool = False, validate_only: bool = False, **entity: str | None) -> None:
        named = [{"entity_type": kind.replace("_", "-"), "entity_name": each} for kind, each in entity.items()]
        entry = {"entity": named, "ops": [{"key": key, "value": 1e9, "remove": remove}]}
        side.ask("alter_client_quotas", version, entries=[entry], validate_only=validate_only)

    ask("producer_byte_rate", user=name, validate_only=True)
    ask("producer_byte_rate", user=name)
    ask("producer_byte_rate", user=name, client_id=None)
    ask("no_such_key", user=name)
    ask("producer_byte_rate", no_such_kind=name)
    ask("producer_byte_rate", user=name, remove=True)
    ask("producer_byte_rate", user=name, client_id=None, remove=True)


def _describe_client_quotas(side: Side, version: int) -> None:
    name = side.name(f"limited-{version}")

    def alter(remove: bool) -> None:
        entry = {"entity": [{"entity_type": "user", "entity_name": name}]}
        limit = [{"key": "consumer_byte_rate", "value": 1e9, "remove": remove}]
        side.prepare("alter_client_quotas", 1, entries=[{**entry, "ops": limit}])

    def ask(kind: str, match_type: int, match: str | None, strict: bool = False) -> None:
        component = {"entity_type": kind, "match_type": match_type, "match": match}
        side.ask("describe_client_quotas", version, components=[component], strict=strict)

    alter(remove=False)
    asked = {"components": [{"entity_type": "user", "match_type": 0, "match": name}]}
    side.until("describe_client_quotas", 1, lambda answer: bool(answer.entries), **asked)  # the node knows of it
    ask("user", 0, name)
    ask("user", 0, side.name("nobody"), strict=True)
    ask("user", 1, None)
    ask("client-id", 2, None)
    ask("no such kind", 0, name)
    ask("user", 7, name)
    alter(remove=True)
    side.until("describe_client_quotas", 1, lambda answer: not answer.entries, **asked)


def _alter_user_scram_credentials(side: Side, version: int) -> None:
    name = side.name("scram")
    secret = {"mechanism": _SCRAM_SHA_256, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}

    def ask(deletions: list[Any], upsertions: list[Any]) -> None:
        side.ask("alter_user_scram_credentials", version, deletions=deletions, upsertions=upsertions)

    ask([], [{"name": name, **secret}])
    ask([], [{"name": name, **secret, "iterations": 1}])
    ask([], [{"name": "", **secret}])
    ask([{"name": side.name("nobody"), "mechanism": _SCRAM_SHA_256}], [])
    ask([{"name": name, "mechanism": 9}], [])
    ask([{"name": name, "mechanism": _SCRAM_SHA_256}], [])
    ask([], [])


def _describe_user_scram_credentials(side: Side, version: int) -> None:
    name = side.name("scram-seen")
    secret = {"mechanism": _SCRAM_SHA_256, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
    side.prepare("alter_user_scram_credentials", 0, upsertions=[{"name": name, **secret}])
    users = [{"name": name}]
    side.until(
        "describe_user_scram_credentials", 0, lambda answer: bool(answer.results[0].credential_infos), users=users
    )
    for names in ([name], [name, side.name("nobody")], [name, name], [""]):
        side.ask("describe_user_scram_credentials", version, users=[{"name": each} for each in names])
    deletions = [{"name": name, "mechanism": _SCRAM_SHA_256}]
    side.prepare("alter_user_scram_credentials", 0, deletions=deletions)
    seen = {"users": users}
    side.until("describe_user_scram_credentials", 0, lambda answer: not answer.results[0].credential_infos, **seen)


def _sasl_handshake(side: Side, version: int) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "nothing", ""):
        side.ask("sasl_handshake", version, mechanism=mechanism)


SCRIPTS = {
    "create_acls": _create_acls,
    "describe_acls": _describe_acls,
    "delete_acls": _delete_acls,
    "alter_client_quotas": _alter_client_quotas,
    "describe_client_quotas": _describe_client_quotas,
    "alter_user_scram_credentials": _alter_user_scram_credentials,
    "describe_user_scram_credentials": _describe_user_scram_credentials,
    "sasl_handshake": _sasl_handshake,
}
