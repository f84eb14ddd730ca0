"""Checks of the values for security that concern several together."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.config.finding import Finding
from mesh.config.mistakes import KeyPath, format_path
from mesh.config.security.model import AccessRule, Authorization, ListenerTls, OAuthBearer, SaslConfig, SaslUser
from mesh.security.rules import OF_TRANSACTIONS
from mesh.security.sasl import Mechanism

_PASSWORDS = frozenset(Mechanism) - {Mechanism.OAUTHBEARER}


def check_tls(tls: ListenerTls, path: KeyPath) -> Iterator[Finding]:
    if tls.client_authentication != "none" and tls.client_ca_file is None:
        allowed = f"a file: clients authenticate with certificates ({tls.client_authentication})"
        yield Finding((*path, "client_ca_file"), None, allowed, ((*path, "client_authentication"),))


def check_sasl(sasl: SaslConfig, path: KeyPath) -> Iterator[Finding]:
    if not sasl.mechanisms:
        yield Finding((*path, "mechanisms"), (), f"some of {', '.join(each.value for each in Mechanism)}")
    with_password = sorted(each.value for each in _PASSWORDS.intersection(sasl.mechanisms))
    if with_password and not sasl.users and sasl.users_file is None:
        allowed = f"users, or a users_file: {', '.join(with_password)} needs them"
        yield Finding((*path, "users"), (), allowed, ((*path, "mechanisms"), (*path, "users_file")))
    if Mechanism.OAUTHBEARER in sasl.mechanisms and sasl.oauthbearer is None:
        yield Finding((*path, "oauthbearer"), None, "required with OAUTHBEARER", ((*path, "mechanisms"),))
    if sasl.oauthbearer is not None:
        yield from _keys(sasl.oauthbearer, (*path, "oauthbearer"))
    yield from check_users(sasl.users, (*path, "users"))


def check_users(users: tuple[SaslUser, ...], path: KeyPath) -> Iterator[Finding]:
    names: dict[str, KeyPath] = {}
    for index, user in enumerate(users):
        at: KeyPath = (*path, index)
        if (first := names.setdefault(user.name, at)) != at:
            yield Finding((*at, "name"), user.name, f"named once; {format_path(first)} is the same", (first,))
        stored = user.scram_sha_256 is not None or user.scram_sha_512 is not None
        if (user.password is not None) is stored:
            yield Finding(at, "(a mapping)", "either password, or scram_sha_256 and scram_sha_512 or one of them")


def check_authorization(authorization: Authorization, path: KeyPath) -> Iterator[Finding]:
    yield from check_rules(authorization.rules, (*path, "rules"))


def check_rules(rules: tuple[AccessRule, ...], path: KeyPath) -> Iterator[Finding]:
    for index, rule in enumerate(rules):
        at: KeyPath = (*path, index)
        if not (rule.topics or rule.groups or rule.transactional_ids or rule.cluster):
            yield Finding(at, "(a mapping)", "a rule about some topics, groups, transactional_ids, or the cluster")
        for key in ("topics", "groups", "transactional_ids"):
            for place, name in enumerate(getattr(rule, key)):
                if not name:
                    yield Finding((*at, key, place), name, "a name that is not empty; `*` stands for all")
        if rule.transactional_ids and OF_TRANSACTIONS.isdisjoint(rule.operations):
            given = tuple(each.value for each in rule.operations)
            allowed = "at least one that transactional ids have: write, describe, all"
            yield Finding((*at, "operations"), given, allowed, ((*at, "transactional_ids"),))
        for key in ("principals", "operations", "hosts"):
            if not getattr(rule, key):
                yield Finding((*at, key), (), "at least one")


def _keys(oauthbearer: OAuthBearer, path: KeyPath) -> Iterator[Finding]:
    given = [key for key in ("jwks_url", "jwks_file", "shared_secret") if getattr(oauthbearer, key) is not None]
    if len(given) != 1:
        yield Finding(path, f"({', '.join(given) or 'none'})", "exactly one of jwks_url, jwks_file and shared_secret")
