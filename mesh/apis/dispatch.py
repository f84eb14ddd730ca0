"""From a request to its handler and from the handler's result to the answer, both through the guard of its API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mesh.apis import TABLE
from mesh.apis.api import Context, HandlerEffect
from mesh.apis.authorization import Denied, Partial, Refusal, authorize
from mesh.pool.common.effects import Answer
from mesh.wire.apis import ApiKey
from mesh.wire.messages import RequestMessage, ResponseMessage


@dataclass(frozen=True, slots=True)
class Work:
    """A request that waits for its answer. request: what of it is allowed. refusals: what is not."""

    api_key: ApiKey
    context: Context
    request: RequestMessage
    verdict: Denied | Partial | None

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return self.verdict.refusals if self.verdict is not None else ()

    def respond(self, result: object) -> ResponseMessage:
        """The answer to the client, for the result that an `Answer` carries."""
        if isinstance(self.verdict, Denied):
            return self.verdict.response
        response: ResponseMessage = TABLE[self.api_key].respond(self.context, self.request, result)
        return self.verdict.complete(response) if self.verdict is not None else response


def begin(api_key: ApiKey, context: Context, request: RequestMessage) -> tuple[Work, Sequence[HandlerEffect]]:
    """What a request leads to. Raises ProtocolError."""
    verdict = authorize(api_key, context, request)
    match verdict:
        case Denied():
            return Work(api_key, context, request, verdict), [Answer(context.ticket, verdict)]
        case Partial(narrowed):
            request = narrowed
    return Work(api_key, context, request, verdict), TABLE[api_key].handle(context, request)
