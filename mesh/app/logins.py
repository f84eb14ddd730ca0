"""The logins of the process at its clusters: one source of tokens for all connections to a cluster."""

from __future__ import annotations

from functools import lru_cache, partial

from mesh.config.login import LoginConfig, OidcLogin
from mesh.records.spans import ClusterName
from mesh.upstream.tokens import aws_msk_iam, file, oidc
from mesh.upstream.tokens.aws_msk_iam import MskIam
from mesh.upstream.tokens.oidc import OidcClient
from mesh.upstream.tokens.source import Fetch, TokenSource


def tokens_of(cluster: ClusterName, login: LoginConfig) -> TokenSource:
    """Returns the source of tokens of a login. Each call with the same login returns the same source."""
    return _source(cluster, login.model_dump_json())


@lru_cache(maxsize=1_000)
def _source(cluster: ClusterName, login: str) -> TokenSource:
    return TokenSource(cluster, fetch_of(LoginConfig.model_validate_json(login)))


def fetch_of(login: LoginConfig) -> Fetch:
    if login.oidc is not None:
        return partial(oidc.fetch, _client(login.oidc, login))
    if login.file is not None:
        return partial(file.fetch, login.file.path, login.extensions)
    assert login.aws_msk_iam is not None, "the configuration was checked"
    found = login.aws_msk_iam
    return partial(aws_msk_iam.fetch, MskIam(found.region, found.profile, found.role_arn))


def _client(found: OidcLogin, login: LoginConfig) -> OidcClient:
    scope = {} if found.scope is None else {"scope": found.scope}
    return OidcClient(
        found.url,
        found.client_id,
        {**scope, **found.parameters},
        login.extensions,
        ca_file=found.ca_file,
        secret=found.client_secret,
        is_secret_in_body=found.authentication == "client_secret_post",
        key_file=found.private_key_file,
        key_password=found.private_key_password,
        key_id=found.kid,
        certificate_file=found.certificate_file,
        audience=found.assertion_audience,
        assertion_file=found.assertion_file,
    )
