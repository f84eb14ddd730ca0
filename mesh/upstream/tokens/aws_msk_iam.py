"""Tokens for Amazon MSK with IAM: a signed URL, which the package `aws-msk-iam-sasl-signer-python` makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mesh.security.oauthbearer_client import Token, TokenRefused, token_of

SESSION: Final = "kafka-mesh"


@dataclass(frozen=True, slots=True)
class MskIam:
    """The login at Amazon MSK with IAM. region: the region of the cluster. profile, role_arn: the source of the
    credentials; None for AWS's own chain (environment, web identity, container, instance)."""

    region: str
    profile: str | None = None
    role_arn: str | None = None


def fetch(identity: MskIam) -> Token:
    """Returns a new token. Raises TokenRefused."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        if identity.role_arn is not None:
            made = signer.generate_auth_token_from_role_arn(identity.region, identity.role_arn, SESSION)
        elif identity.profile is not None:
            made = signer.generate_auth_token_from_profile(identity.region, identity.profile)
        else:
            made = signer.generate_auth_token(identity.region)
    except AttributeError:  # raised by the library when it finds no credentials
        raise TokenRefused("AWS: no credentials were found") from None
    except (BotoCoreError, ClientError, ValueError) as problem:
        raise TokenRefused(f"AWS: {problem}") from None
    text, expires_ms = made
    return token_of(text, expires_ms / 1_000, {})
