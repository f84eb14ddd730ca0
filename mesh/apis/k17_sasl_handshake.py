"""SaslHandshake: v0-v1

Behaviour:
* Accepts the mechanisms that are enabled on this listener. Any other gets UNSUPPORTED_SASL_MECHANISM with the list of
  them, and the connection is closed.
* On an authenticated connection it begins a re-authentication (KIP-368). On a listener without SASL, and in the middle
  of an exchange, it gets ILLEGAL_SASL_STATE.

Version notes:
* v0: bare tokens without a header follow, which only clients older than Kafka 1.0 send. With SASL it is refused with
  UNSUPPORTED_VERSION. It is advertised because librdkafka up to 2.0 believes that a broker without it has no SASL.
* v1: tokens come in SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mesh.apis.api import Api, Authentication, RequestContext
from mesh.security.session import Handshake
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import SaslHandshakeRequest, SaslHandshakeResponse

FIRST_VERSION_WITH_SASL_AUTHENTICATE: Final = 1
ERRORS: Final = {
    Handshake.ACCEPTED: ErrorCode.NONE,
    Handshake.UNSUPPORTED_MECHANISM: ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    Handshake.UNSUPPORTED_VERSION: ErrorCode.UNSUPPORTED_VERSION,
    Handshake.ILLEGAL_STATE: ErrorCode.ILLEGAL_SASL_STATE,
}


def handle(context: RequestContext, request: SaslHandshakeRequest) -> Sequence[Authentication]:
    if context.version < FIRST_VERSION_WITH_SASL_AUTHENTICATE and context.session.offered:
        return [Authentication(context.ticket, Handshake.UNSUPPORTED_VERSION)]
    return [Authentication(context.ticket, context.session.handshake(request.mechanism))]


def respond(context: RequestContext, request: SaslHandshakeRequest, result: Handshake) -> SaslHandshakeResponse:
    offered = tuple(mechanism.value for mechanism in context.session.offered)
    return SaslHandshakeResponse(error_code=ERRORS[result], mechanisms=offered)


API = Api(ApiKey.SASL_HANDSHAKE, APIS[ApiKey.SASL_HANDSHAKE], handle, respond)
