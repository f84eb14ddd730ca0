"""The configuration of logins at a cluster with OAUTHBEARER."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from mesh.config.base import Model
from mesh.config.security.model import FilePath
from mesh.config.values import Scalar, http_url, matching

_TEXT = StringConstraints(min_length=1)
_URL = http_url()
_REGION = matching(r"[a-z]{2,}(-[a-z0-9]+)+", "a region of AWS, such as eu-central-1")


class OidcLogin(Model):
    """The login with tokens of an OpenID Connect issuer, requested by client credentials."""

    url: Annotated[str, _URL] = Field(description="The issuer's token endpoint.")
    client_id: Annotated[str, _TEXT] = Field(description="The id of the client that gets the tokens.")
    client_secret: Annotated[str, _TEXT] | None = Field(
        default=None, repr=False, description="The client secret; better from the environment."
    )
    authentication: Literal["client_secret_basic", "client_secret_post"] = Field(
        default="client_secret_basic", description="Whether the secret goes into a header or into the form."
    )
    private_key_file: FilePath | None = Field(
        default=None, description="A key that signs assertions, in PEM (private_key_jwt)."
    )
    private_key_password: str | None = Field(default=None, repr=False, description="The passphrase of the key.")
    kid: Annotated[str, _TEXT] | None = Field(default=None, description="The id by which the issuer knows the key.")
    certificate_file: FilePath | None = Field(default=None, description="Its certificate, for Entra.")
    assertion_audience: Annotated[str, _TEXT] | None = Field(
        default=None, description="`aud` of the assertion; without it `url`."
    )
    assertion_file: FilePath | None = Field(
        default=None, description="A file with an assertion that another program renews."
    )
    scope: Annotated[str, _TEXT] | None = Field(default=None, description="The scope to ask for.")
    parameters: dict[str, Scalar] = Field(default_factory=dict, description="More parameters for the issuer.")
    ca_file: FilePath | None = Field(default=None, description="Authorities of the issuer's certificate.")


class TokenFileLogin(Model):
    """The login with tokens from a file that another program keeps up to date."""

    path: FilePath = Field(description="A JWT with exp, read again before it ends.")


class MskIamLogin(Model):
    """The login at Amazon MSK with IAM."""

    region: Annotated[str, _REGION] = Field(description="The AWS region of the cluster.")
    profile: Annotated[str, _TEXT] | None = Field(default=None, description="A profile of AWS's files.")
    role_arn: Annotated[str, _TEXT] | None = Field(default=None, description="A role to assume.")


class LoginConfig(Model):
    """The source of a cluster's tokens: exactly one of oidc, file, aws_msk_iam."""

    oidc: OidcLogin | None = Field(default=None, description="An OpenID Connect issuer.")
    file: TokenFileLogin | None = Field(default=None, description="A file.")
    aws_msk_iam: MskIamLogin | None = Field(default=None, description="IAM of AWS.")
    extensions: dict[str, Scalar] = Field(
        default_factory=dict, description="SASL extensions that are sent with each token."
    )
