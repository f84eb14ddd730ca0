"""What guards one listener: TLS, SASL, rules. What can be replaced while it runs is replaced here."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mesh.config.listeners import FIRST, ListenerName
from mesh.security.credentials import Credentials
from mesh.security.distinguished_names import MappingRule, distinguished_name, principal_of
from mesh.security.plain import PlainExchange
from mesh.security.principals import ANONYMOUS, Principal
from mesh.security.rules import UNLIMITED, Access, Rules
from mesh.security.sasl import Exchange, Failure, Mechanism, Success
from mesh.security.scram import ScramExchange, ScramHash
from mesh.security.session import Begin, Mechanisms, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from mesh.security.oauthbearer import TokenKeys, TokenRules

NONCE_BYTES: Final = 24
_HASHES: Final = {Mechanism.SCRAM_SHA_256: ScramHash.SHA_256, Mechanism.SCRAM_SHA_512: ScramHash.SHA_512}


@dataclass(slots=True, eq=False)
class Tls:
    """TLS of a listener. context: of connections that begin from now on. mapping: of distinguished names."""

    context: ssl.SSLContext
    mapping: Sequence[MappingRule] = ()


@dataclass(slots=True, eq=False)
class Tokens:
    """What OAUTHBEARER goes by. keys: None before they were fetched for the first time. refresh: fetch them soon, for a
    token names one that is not known; whether that may help."""

    rules: TokenRules
    keys: TokenKeys | None
    refresh: Callable[[], bool] = lambda: False

    def check(self, token: str, wall: float) -> Success | Failure:
        from mesh.security.oauthbearer import check_token

        if self.keys is None:
            self.refresh()
            # The token may be good: whoever brings it must not be told that it is not, for clients end then.
            return Failure("busy", "the keys have not been fetched yet")
        step = check_token(token, self.keys, self.rules, wall)
        if isinstance(step, Failure) and step.reason == "unknown_key" and self.refresh():
            return Failure("busy", "a key that is not known: the keys are fetched again", step.name)
        return step


@dataclass(slots=True, eq=False)
class Sasl:
    """SASL of a listener. offered: in the order in which clients are told. longest_session: seconds. wall: seconds
    since the epoch."""

    offered: tuple[Mechanism, ...]
    credentials: Credentials
    wall: Callable[[], float]
    tokens: Tokens | None = None
    longest_session: float | None = None

    def mechanisms(self) -> Mechanisms:
        """What the next authentication goes by."""
        return {mechanism: self._begin(mechanism) for mechanism in self.offered}

    def _begin(self, mechanism: Mechanism) -> Begin:
        credentials = self.credentials

        def scram() -> Exchange:
            hash = _HASHES[mechanism]
            return ScramExchange(lambda name: credentials.look_up(hash, name), secrets.token_urlsafe(NONCE_BYTES))

        def bearer() -> Exchange:
            from mesh.security.oauthbearer import OAuthBearerExchange

            tokens = self.tokens
            assert tokens is not None
            return OAuthBearerExchange(lambda token: tokens.check(token, self.wall()))

        match mechanism:
            case Mechanism.PLAIN:
                return lambda: PlainExchange(credentials.verify)
            case Mechanism.SCRAM_SHA_256 | Mechanism.SCRAM_SHA_512:
                return scram
            case Mechanism.OAUTHBEARER:
                return bearer


@dataclass(slots=True, eq=False)
class ListenerSecurity:
    """None of them: whoever connects may do everything. tls: of the first listener; further_tls: of the others."""

    tls: Tls | None = None
    sasl: Sasl | None = None
    rules: Rules | None = None
    further_tls: dict[ListenerName, Tls] = field(default_factory=dict)

    def tls_of(self, listener: ListenerName) -> Tls | None:
        return self.tls if listener == FIRST else self.further_tls.get(listener)

    def session(self, peer_certificate: bytes | None, listener: ListenerName = FIRST) -> Session | None:
        """For a connection that begins. None if its certificate (DER) is of nobody that the mapping rules know.

        With SASL the certificate only lets it in, as in Kafka: who it is SASL says.
        """
        if self.sasl is not None:
            return Session(self._mechanisms, self.sasl.longest_session)
        principal: Principal | None = ANONYMOUS
        tls = self.tls_of(listener)
        if tls is not None and peer_certificate is not None:
            principal = principal_of(distinguished_name(peer_certificate), tls.mapping)
        return None if principal is None else Session(principal=principal)

    def change(self, other: ListenerSecurity) -> None:
        """Go by another one from now on: connections that are there when they authenticate the next time."""
        self.tls, self.sasl, self.rules = other.tls, other.sasl, other.rules
        self.further_tls = other.further_tls

    def _mechanisms(self) -> Mechanisms:
        return self.sasl.mechanisms() if self.sasl is not None else {}

    def access(self, principal: Principal | None, host: str) -> Access:
        """What that client may do."""
        if self.rules is None:
            return UNLIMITED
        return self.rules.access(principal or ANONYMOUS, host)


def peer_certificate(transport: Any) -> bytes | None:
    """In DER; None for a connection without TLS, or a client without one."""
    tls = transport.get_extra_info("ssl_object")
    return tls.getpeercert(binary_form=True) if tls is not None else None
