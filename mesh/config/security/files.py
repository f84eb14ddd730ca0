"""Users and rules in files of their own, which are read again when they change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from mesh.config.base import Model
from mesh.config.finding import Finding
from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake
from mesh.config.security.checks import check_rules, check_users
from mesh.config.security.model import AccessRule, Authorization, RulesFile, SaslUser, UsersFile
from mesh.config.yaml_reading import Document, read
from mesh.files import read_file
from mesh.security.credentials import StoredUser
from mesh.security.principals import Principal
from mesh.security.rules import CLUSTER_NAME, OF_TRANSACTIONS, ResourceType, Rule, Rules
from mesh.security.scram import ScramCredential, ScramHash

File = TypeVar("File", bound=Model)


def load_users(path: Path, variables: Mapping[str, str] = os.environ) -> tuple[SaslUser, ...]:
    """Returns the users in a file. Raises OSError if it cannot be read, ConfigurationError with every mistake in it."""
    return _load(path, UsersFile, lambda file: check_users(file.users, ("users",)), variables).users


def load_rules(path: Path, variables: Mapping[str, str] = os.environ) -> tuple[AccessRule, ...]:
    """Returns the rules in a file. Raises OSError if it cannot be read, ConfigurationError with every mistake in it."""
    return _load(path, RulesFile, lambda file: check_rules(file.rules, ("rules",)), variables).rules


def stored_users(users: Iterable[SaslUser]) -> Iterator[StoredUser]:
    for user in users:
        given = ((ScramHash.SHA_256, user.scram_sha_256), (ScramHash.SHA_512, user.scram_sha_512))
        scram = tuple(ScramCredential.parse(hash, text) for hash, text in given if text is not None)
        yield StoredUser(user.name, user.password, scram)


def rules_of(authorization: Authorization, more: Iterable[AccessRule] = ()) -> Rules:
    return Rules(
        tuple(rule for each in (*authorization.rules, *more) for rule in _rules(each)),
        frozenset(map(Principal, authorization.super_users)),
        authorization.allow_everyone_if_no_rule,
    )


def _rules(rule: AccessRule) -> Iterator[Rule]:
    cluster = (CLUSTER_NAME,) if rule.cluster else ()
    kinds = (
        (ResourceType.TOPIC, rule.topics),
        (ResourceType.GROUP, rule.groups),
        (ResourceType.TRANSACTIONAL_ID, rule.transactional_ids),
        (ResourceType.CLUSTER, cluster),
    )
    for resource_type, names in kinds:
        operations = frozenset(rule.operations)
        if resource_type is ResourceType.TRANSACTIONAL_ID:
            operations &= OF_TRANSACTIONS
        if names and operations:
            yield Rule(
                principals=frozenset(map(Principal, rule.principals)),
                permission=rule.permission,
                operations=operations,
                resource_type=resource_type,
                names=names,
                pattern_type=rule.pattern_type,
                hosts=frozenset(rule.hosts),
            )


def _load(
    path: Path, kind: type[File], check: Callable[[File], Iterable[Finding]], variables: Mapping[str, str]
) -> File:
    document = read(read_file(path), variables)
    mistakes = list(document.mistakes)
    try:
        file = kind.model_validate(document.data)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            mistakes.append(Mistake(details["loc"], "", document.environment.hide(details["msg"])))
        raise ConfigurationError(mistakes) from None
    mistakes += [_mistake(finding, document) for finding in check(file)]
    if mistakes:
        raise ConfigurationError(mistakes)
    return file


def _mistake(finding: Finding, document: Document) -> Mistake:
    path: KeyPath = finding.path
    return Mistake(path, document.environment.show(path, finding.value), document.environment.hide(finding.allowed))
