"""Makes the security of a listener from its configuration, with the files that are watched for changes."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from mesh.config.listeners import FIRST, ListenerName
from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake
from mesh.config.model import VirtualClusterConfig
from mesh.config.security.files import load_rules, load_users, rules_of, stored_users
from mesh.config.security.model import Authorization, ListenerTls, OAuthBearer, SaslConfig
from mesh.files import read_file
from mesh.listener.certificates import watched_certificate
from mesh.listener.jwks import JwksSource
from mesh.listener.security import ListenerSecurity, Sasl, Tls, Tokens
from mesh.listener.tls import server_context
from mesh.listener.watched_files import Watched, describe
from mesh.security.credentials import Credentials
from mesh.security.distinguished_names import MappingRule
from mesh.security.rules import Rules
from mesh.security.sasl import Mechanism

_TLS_FILES: Final = ("certificate_file", "key_file", "client_ca_file")


class ListenerSetup:
    """The configured security of a listener.

    security: replaced part by part when files change. watched: the files that may change. key_source: the source of
    token keys, if they come from a URL. rules_changed: called when rules have changed. Raises ConfigurationError for
    files that cannot be used.
    """

    def __init__(self, config: VirtualClusterConfig, path: KeyPath) -> None:
        self.security = ListenerSecurity()
        self.watched: list[Watched[Any]] = []
        self.key_source: JwksSource | None = None
        self.rules_changed: Callable[[], None] = lambda: None
        problems: list[Mistake] = []
        for watched, at in self._parts(config, path):
            try:
                watched.first()
            except ConfigurationError as problem:
                problems += [Mistake((*at, *each.path), each.value, each.allowed) for each in problem.mistakes]
            except (OSError, ValueError) as problem:
                problems.append(mistake_of(at, watched.paths, problem))
            self.watched.append(watched)
        if problems:
            raise ConfigurationError(problems)

    def take_over(self, security: ListenerSecurity) -> None:
        """Makes this the setup of a listener that runs already."""
        security.change(self.security)
        self.security = security

    def _parts(self, config: VirtualClusterConfig, path: KeyPath) -> Iterator[tuple[Watched[Any], KeyPath]]:
        for listener in config.all_listeners():
            if listener.tls is not None:
                yield self._tls(config.name, listener.tls, listener.name), (*path, *listener.path, "tls")
        if config.sasl is not None:
            yield from self._sasl(config.sasl, (*path, "sasl"))
        if config.authorization is not None:
            rules = "rules" if config.authorization.rules_file is None else "rules_file"
            yield self._rules(config.authorization), (*path, "authorization", rules)

    def _tls(self, virtual_cluster: str, config: ListenerTls, listener: ListenerName) -> Watched[Any]:
        mapping = [MappingRule.parse(rule) for rule in config.principal_mapping_rules]
        files = [config.certificate_file, config.key_file]
        if config.client_ca_file is not None:
            files.append(config.client_ca_file)

        def apply(context: Any) -> None:
            tls = Tls(context, mapping)
            if listener == FIRST:
                self.security.tls = tls
            else:
                self.security.further_tls[listener] = tls

        owner = {"virtual_cluster": virtual_cluster, **({"listener": listener} if listener != FIRST else {})}
        return watched_certificate(owner, config.certificate_file, files, lambda: server_context(config), apply)

    def _sasl(self, config: SaslConfig, path: KeyPath) -> Iterator[tuple[Watched[Any], KeyPath]]:
        secret = config.salt_secret.encode() if config.salt_secret is not None else None
        sasl = Sasl(config.mechanisms, Credentials((), secret), time.time, None, config.longest_session)
        self.security.sasl = sasl

        def load() -> Credentials:
            more = load_users(Path(config.users_file)) if config.users_file is not None else ()
            names = [user.name for user in (*config.users, *more)]
            if twice := {name for name in names if names.count(name) > 1}:
                raise ValueError(f"users in both the configuration and users_file: {', '.join(sorted(twice))}")
            return Credentials(stored_users((*config.users, *more)), secret)

        def apply(credentials: Credentials) -> None:
            sasl.credentials = credentials

        files = [config.users_file] if config.users_file is not None else []
        yield Watched(files, load, apply), (*path, "users_file" if files else "users")
        if config.oauthbearer is not None and Mechanism.OAUTHBEARER in config.mechanisms:
            yield from self._tokens(sasl, config.oauthbearer, (*path, "oauthbearer"))

    def _tokens(self, sasl: Sasl, config: OAuthBearer, path: KeyPath) -> Iterator[tuple[Watched[Any], KeyPath]]:
        from mesh.security.oauthbearer import TokenKeys, TokenRules, keys_of_jwks

        rules = TokenRules(
            issuer=config.issuer,
            audiences=config.audiences,
            principal_claim=config.principal_claim,
            clock_skew=config.clock_skew,
        )
        tokens = sasl.tokens = Tokens(rules, None)
        if config.shared_secret is not None:
            tokens.keys = TokenKeys((), config.shared_secret.encode())
        elif config.jwks_url is not None:
            self.key_source = JwksSource(config.jwks_url, tokens, config.refresh)
            tokens.refresh = self.key_source.refresh_soon
        elif config.jwks_file is not None:
            file = config.jwks_file

            def apply(keys: TokenKeys) -> None:
                tokens.keys = keys

            yield Watched([file], lambda: keys_of_jwks(read_file(file)), apply), (*path, "jwks_file")

    def _rules(self, config: Authorization) -> Watched[Any]:
        def load() -> Rules:
            return rules_of(config, load_rules(Path(config.rules_file)) if config.rules_file is not None else ())

        def apply(rules: Rules) -> None:
            self.security.rules = rules
            self.rules_changed()

        return Watched([config.rules_file] if config.rules_file is not None else [], load, apply)


def mistake_of(path: KeyPath, files: Sequence[str], problem: Exception) -> Mistake:
    """Returns the mistake of files that cannot be used. path: their key in the configuration."""
    match problem:
        case OSError(filename=str(name), strerror=str(reason)) if not isinstance(problem, ssl.SSLError):
            # The TLS files are read together; the mistake names this one.
            key = (_TLS_FILES[files.index(name)],) if path[-1] == "tls" and name in files else ()
            return Mistake((*path, *key), name, reason)
    return Mistake(path, ", ".join(files), describe(problem))
