"""The configuration of TLS, SASL and rules for clients."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from mesh.config.base import Model
from mesh.config.values import Duration, http_url, matching
from mesh.security.distinguished_names import MappingRule
from mesh.security.rules import ANY, Operation, PatternType, Permission
from mesh.security.sasl import Mechanism
from mesh.security.scram import ScramCredential, ScramHash

FilePath = Annotated[str, StringConstraints(min_length=1)]
UserName = Annotated[str, StringConstraints(min_length=1, max_length=255)]


def _host(value: str) -> str:
    if value != ANY:
        try:
            ip_address(value)
        except ValueError:
            allowed = "an IP address or *: names of hosts are not looked up"
            raise PydanticCustomError("text", "{allowed}", {"allowed": allowed}) from None
    return value


HostText = Annotated[str, AfterValidator(_host)]
PrincipalText = Annotated[str, matching(r"[A-Za-z]+:.{1,1000}", "TYPE:NAME, such as User:alice, or User:* for all")]


def _mapping_rule(text: str) -> str:
    try:
        MappingRule.parse(text)
    except ValueError as error:
        raise PydanticCustomError("mapping_rule", "{allowed}", {"allowed": str(error)}) from None
    return text


def _scram(hash: ScramHash) -> AfterValidator:
    def check(text: str) -> str:
        try:
            ScramCredential.parse(hash, text)
        except ValueError as error:
            raise PydanticCustomError("scram", "{allowed}", {"allowed": str(error)}) from None
        return text

    return AfterValidator(check)


class TlsConfig(Model):
    """The server's certificate and TLS version. All files are PEM, and are read again when they change."""

    certificate_file: FilePath = Field(description="The certificate, and those between it and its authority.")
    key_file: FilePath = Field(description="Its private key.")
    key_password: str | None = Field(default=None, repr=False, description="The passphrase of the private key.")
    minimum_version: Literal["TLSv1.2", "TLSv1.3"] = Field(
        default="TLSv1.2", description="The oldest version of TLS to accept."
    )


class ListenerTls(TlsConfig):
    client_authentication: Literal["none", "requested", "required"] = Field(
        default="none", description="Whether clients show a certificate, as Kafka's ssl.client.auth."
    )
    client_ca_file: FilePath | None = Field(default=None, description="Authorities that sign certificates of clients.")
    principal_mapping_rules: tuple[Annotated[str, AfterValidator(_mapping_rule)], ...] = Field(
        default=("DEFAULT",), description="Kafka's ssl.principal.mapping.rules, a list item each."
    )


class SaslUser(Model):
    """A user that may log in, with a password or a SCRAM credential."""

    name: UserName = Field(description="The user name; the principal is User:NAME.")
    password: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None, repr=False, description="The password itself; better from the environment."
    )
    scram_sha_256: Annotated[str, _scram(ScramHash.SHA_256)] | None = Field(
        default=None, repr=False, description="What `kafka-mesh credential` printed."
    )
    scram_sha_512: Annotated[str, _scram(ScramHash.SHA_512)] | None = Field(
        default=None, repr=False, description="The same for SCRAM-SHA-512."
    )


class OAuthBearer(Model):
    """The checks of OAUTHBEARER tokens: their signature and claims."""

    jwks_url: Annotated[str, http_url()] | None = Field(
        default=None, description="Where the issuer publishes its keys."
    )
    jwks_file: FilePath | None = Field(default=None, description="The same in a file.")
    shared_secret: Annotated[str, StringConstraints(min_length=32)] | None = Field(
        default=None, repr=False, description="A secret for HS256, HS384 and HS512, in place of keys."
    )
    issuer: str | None = Field(default=None, description="The required `iss`.")
    audiences: tuple[str, ...] = Field(default=(), description="Audiences, one of which must be in `aud`.")
    principal_claim: str = Field(default="sub", description="The claim that is the user name.")
    clock_skew: Duration = Field(default=30.0, description="How far clocks may differ.")
    refresh: Duration = Field(default=300.0, description="How often to fetch the keys again.")


class SaslConfig(Model):
    """The authentication of clients."""

    mechanisms: tuple[Mechanism, ...] = Field(description="The enabled mechanisms.")
    users: tuple[SaslUser, ...] = Field(default=(), description="Users of PLAIN and SCRAM.")
    users_file: FilePath | None = Field(default=None, description="A YAML file with more `users`.")
    salt_secret: Annotated[str, StringConstraints(min_length=16)] | None = Field(
        default=None, repr=False, description="A secret that keeps clients from finding out which names exist."
    )
    oauthbearer: OAuthBearer | None = Field(default=None, description="For OAUTHBEARER.")
    longest_session: Duration | None = Field(
        default=None,
        description="The time after which clients authenticate again, as Kafka's connections.max.reauth.ms.",
    )


class AccessRule(Model):
    """One or several of Kafka's ACLs."""

    principals: tuple[PrincipalText, ...] = Field(description="The principals that the rule is about.")
    permission: Permission = Field(default=Permission.ALLOW, description="`deny` wins over all that allow.")
    operations: tuple[Operation, ...] = Field(default=(Operation.READ,), description="Kafka's operations.")
    topics: tuple[str, ...] = Field(default=(), description="Names of topics, or `*`.")
    groups: tuple[str, ...] = Field(default=(), description="Group ids, or `*`.")
    transactional_ids: tuple[str, ...] = Field(default=(), description="Transactional ids of producers, or `*`.")
    cluster: bool = Field(default=False, description="Whether the rule is about the cluster as a whole, too.")
    pattern_type: PatternType = Field(default=PatternType.LITERAL, description="Whether names are prefixes.")
    hosts: tuple[HostText, ...] = Field(default=("*",), description="IP addresses of clients, or `*`.")


class Authorization(Model):
    """The rules of a virtual cluster. With this section, everything that no rule allows is refused."""

    rules: tuple[AccessRule, ...] = Field(default=(), description="Kafka's ACLs, in any order.")
    rules_file: FilePath | None = Field(default=None, description="A YAML file with more `rules`.")
    super_users: tuple[PrincipalText, ...] = Field(default=(), description="Principals that may do everything.")
    allow_everyone_if_no_rule: bool = Field(
        default=False, description="Whether topics and groups without a rule are open to all."
    )


class UsersFile(Model):
    users: tuple[SaslUser, ...]


class RulesFile(Model):
    rules: tuple[AccessRule, ...]
