"""Passes a request to its handler, and makes the response of the handler's result, both through the guard of its
API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mesh.apis.answers import Answer
from mesh.apis.api import AnyApi, RequestContext
from mesh.apis.authorization import Denied, Partial, authorize
from mesh.security.rules import Refusal
from mesh.wire.messages import RequestMessage, ResponseMessage


@dataclass(frozen=True, slots=True)
class Work:
    """A request that waits for its answer. request: its allowed part. refusals: the operations that were refused."""

    api: AnyApi
    context: RequestContext
    request: RequestMessage
    authorized: Denied | Partial | None

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return self.authorized.refusals if self.authorized is not None else ()

    @property
    def later_refusals(self) -> Sequence[Refusal]:
        """The operations that were refused while the response was made; empty before."""
        return self.authorized.later if isinstance(self.authorized, Partial) else ()

    def respond(self, result: object) -> ResponseMessage | None:
        """Returns the response to the client for the result in an `Answer`; None if the client gets none."""
        if isinstance(self.authorized, Denied):
            return self.authorized.response
        response: ResponseMessage | None = self.api.respond(self.context, self.request, result)
        return self.authorized.complete(response) if self.authorized is not None else response


def begin(api: AnyApi, context: RequestContext, request: RequestMessage) -> tuple[Work, Sequence[Any]]:
    """Begins a request. Returns it with the effects of its target. Raises ProtocolError."""
    authorized = authorize(api.key, context, request)
    match authorized:
        case Denied():
            return Work(api, context, request, authorized), [Answer(context.ticket, authorized)]
        case Partial(allowed):
            request = allowed
    return Work(api, context, request, authorized), api.handle(context, request)
