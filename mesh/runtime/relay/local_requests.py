"""What a relay answers itself: authentication, and versions to a client that has not authenticated yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesh.apis.api import AnyApi, RequestContext, RequestFields
from mesh.listener.requests import PendingRequest
from mesh.wire.apis import ApiKey
from mesh.wire.messages import RequestMessage


class LocalRequests:
    """Implements `mesh.listener.requests.Handler` for a relay, which has no handlers: its listener's are all there
    are."""

    table: Mapping[ApiKey, AnyApi] = {}

    def context(self, pending: PendingRequest, fields: RequestFields) -> RequestContext:
        return RequestContext(*fields)

    def carry_out(self, pending: PendingRequest, effects: Sequence[Any]) -> None:
        raise AssertionError("the listener carries out what its own handlers return")

    def answer_early(self, pending: PendingRequest) -> None:
        """Nothing here waits longer than it must."""

    def count(self, message: RequestMessage, result: object) -> None: ...

    def is_unthrottled(self, result: object) -> bool:
        return False
