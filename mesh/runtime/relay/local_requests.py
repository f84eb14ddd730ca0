"""The requests that a relay answers itself: those for authentication, and ApiVersions of a client that has not
authenticated yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesh.apis.api import AnyApi, RequestContext, RequestFields
from mesh.listener.requests import PendingRequest
from mesh.wire.apis import ApiKey
from mesh.wire.messages import RequestMessage


class LocalRequests:
    """The handler of a relay. A relay has no APIs of its own, so only those of the listener are answered. Implements
    `mesh.listener.requests.Handler`."""

    table: Mapping[ApiKey, AnyApi] = {}

    def context(self, pending: PendingRequest, fields: RequestFields) -> RequestContext:
        return RequestContext(*fields)

    def carry_out(self, pending: PendingRequest, effects: Sequence[Any]) -> None:
        raise AssertionError("the listener carries out what its own handlers return")

    def answer_early(self, pending: PendingRequest) -> None:
        """Does nothing: no request here waits longer than it must."""

    def count(self, message: RequestMessage, result: object) -> None: ...

    def is_unthrottled(self, result: object) -> bool:
        return False
