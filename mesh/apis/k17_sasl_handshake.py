"""SaslHandshake: v0-v1

Behaviour:
* Accepts a mechanism that is enabled on this listener; for another one UNSUPPORTED_SASL_MECHANISM with the list of
  those that are, and the connection is closed.
* On a connection that is authenticated already it begins a re-authentication (KIP-368). On a listener without SASL, and
  in the middle of an exchange: ILLEGAL_SASL_STATE.

Version notes:
* v0 goes on with bare tokens without a header, which only clients from before Kafka 1.0 do: refused with
  UNSUPPORTED_VERSION where there is SASL. It is advertised because librdkafka up to 2.0 takes a broker without it for
  one without SASL.
* v1: the tokens are sent as SaslAuthenticate (KIP-152).
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
