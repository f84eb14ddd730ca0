"""SaslAuthenticate: v0-v2

Behaviour:
* Carries one message of the mechanism that the handshake named, and the answer to it. Any failure gets
  SASL_AUTHENTICATION_FAILED after a delay, with a text that does not help to guess, and the connection is closed.
* A password in clear is checked in a thread, so its answer comes later.
* Without a handshake before it, it gets ILLEGAL_SASL_STATE.

Version notes:
* v1: session_lifetime_ms (KIP-368). The client authenticates again within that time, or its next request closes the
  connection. That of a client of v0 is closed, too: it connects again. v2: flexible (KIP-482).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from mesh.apis.api import Api, Authentication, RequestContext
from mesh.security.sasl import MESSAGES, Challenge, Failure
from mesh.security.session import Authenticated
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import SaslAuthenticateRequest, SaslAuthenticateResponse

_AFTERWARDS = "SaslAuthenticate request received after successful authentication"
"""A broker's message. It is also used on listeners without SASL."""
_WITHOUT_HANDSHAKE = "SaslAuthenticate without a SaslHandshake before it"
Result: TypeAlias = Challenge | Authenticated | Failure | Literal["illegal state"]


def handle(context: RequestContext, request: SaslAuthenticateRequest) -> Sequence[Authentication]:
    step = context.session.authenticate(request.auth_bytes, context.now, context.wall)
    return [Authentication(context.ticket, step)]


def respond(context: RequestContext, request: SaslAuthenticateRequest, result: Result) -> SaslAuthenticateResponse:
    match result:
        case Challenge(token):
            return SaslAuthenticateResponse(auth_bytes=token)
        case Authenticated(token=token, seconds=seconds):
            # At least a millisecond: 0 would mean no limit.
            lifetime = 0 if seconds is None else max(int(seconds * 1000), 1)
            return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime)
        case Failure(reason):
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=MESSAGES[reason]
            )
        case _:
            message = _AFTERWARDS if context.session.is_established else _WITHOUT_HANDSHAKE
            return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message)


API = Api(ApiKey.SASL_AUTHENTICATE, APIS[ApiKey.SASL_AUTHENTICATE], handle, respond)
