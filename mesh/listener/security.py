"""The security of one listener: TLS, SASL, rules. All parts that may change while it runs are replaced here."""

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
from mesh.wire.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mesh.security.oauthbearer import TokenKeys, TokenRules

NONCE_BYTES: Final = 24
_HASHES: Final = {Mechanism.SCRAM_SHA_256: ScramHash.SHA_256, Mechanism.SCRAM_SHA_512: ScramHash.SHA_512}


@dataclass(slots=True, eq=False)
class Tls:
    """TLS of a listener. context: used for connections that begin from now on. mapping: the mapping of distinguished
    names to principals."""

    context: ssl.SSLContext
    mapping: Sequence[MappingRule] = ()


@dataclass(slots=True, eq=False)
class Tokens:
    """The rules and keys for tokens of OAUTHBEARER. keys: None before the first fetch. refresh: requests a fetch soon,
    since a token names the unknown key of this id; returns False if that cannot help."""

    rules: TokenRules
    keys: TokenKeys | None
    refresh: Callable[[str], bool] = lambda key_id: False

    def check(self, token: str, wall: float) -> Success | Failure:
        from mesh.security.oauthbearer import UnknownKey, check_token

        if self.keys is None:
            self.refresh("")
            # The token may be valid, and clients give up after an authentication error.
            return Failure("busy", "the keys have not been fetched yet")
        step = check_token(token, self.keys, self.rules, wall)
        if isinstance(step, UnknownKey) and self.refresh(step.key_id):
            return Failure("busy", "a key that is not known: the keys are fetched again", step.name)
        return step


@dataclass(slots=True, eq=False)
class Sasl:
    """SASL of a listener. offered: the mechanisms, in the order in which clients see them. longest_session: seconds.
    wall: returns the time in seconds since the epoch."""

    offered: tuple[Mechanism, ...]
    credentials: Credentials
    wall: Callable[[], float]
    tokens: Tokens | None = None
    longest_session: float | None = None

    def mechanisms(self) -> Mechanisms:
        """Returns the mechanisms for the next authentication."""
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
    """The security of the listeners of a virtual cluster. Without any of it, every client may do everything. tls: TLS
    of the first listener. further_tls: TLS of the others."""

    tls: Tls | None = None
    sasl: Sasl | None = None
    rules: Rules | None = None
    further_tls: dict[ListenerName, Tls] = field(default_factory=dict)

    def tls_of(self, listener: ListenerName) -> Tls | None:
        return self.tls if listener == FIRST else self.further_tls.get(listener)

    def session(self, peer_certificate: bytes | None, listener: ListenerName = FIRST) -> Session | None:
        """Returns the session of a new connection; None if no mapping rule is about its certificate (DER). Raises
        ProtocolError if the certificate cannot be read.

        With SASL the certificate only admits the client, as in Kafka; SASL gives the identity.
        """
        if self.sasl is not None:
            return Session(self._mechanisms, self.sasl.longest_session)
        principal: Principal | None = ANONYMOUS
        tls = self.tls_of(listener)
        if tls is not None and peer_certificate is not None:
            principal = principal_of(subject_of(peer_certificate), tls.mapping)
        return None if principal is None else Session(principal=principal)

    def change(self, other: ListenerSecurity) -> None:
        """Replaces the security by another. Open connections keep theirs until they authenticate the next time."""
        self.tls, self.sasl, self.rules = other.tls, other.sasl, other.rules
        self.further_tls = other.further_tls

    def _mechanisms(self) -> Mechanisms:
        return self.sasl.mechanisms() if self.sasl is not None else {}

    def access(self, principal: Principal | None, host: str) -> Access:
        """Returns the permissions of a client."""
        if self.rules is None:
            return UNLIMITED
        return self.rules.access(principal or ANONYMOUS, host)


def subject_of(certificate: bytes) -> str:
    """Returns the subject of a client's certificate (DER). Raises ProtocolError if it cannot be read."""
    try:
        return distinguished_name(certificate)
    except ValueError as problem:
        raise ProtocolError("unauthenticated", f"the client's certificate cannot be read: {problem}") from None


def peer_certificate(transport: Any) -> bytes | None:
    """Returns the client's certificate in DER; None without TLS, and without a certificate."""
    tls = transport.get_extra_info("ssl_object")
    return tls.getpeercert(binary_form=True) if tls is not None else None
