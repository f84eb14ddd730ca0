"""Produce and Fetch as clients and brokers write them, and interceptors that run inline."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from mesh.interceptors.chain import ChainStep, InterceptorName, OnFailure
from mesh.interceptors.selection import ConfiguredInterceptor, InterceptionPoint, Isolation, Selection
from mesh.interceptors.sequences import Sequences
from mesh.interceptors.spi import Effect, Interceptor, On
from mesh.runtime.interception.client import InterceptedClient, Interceptors
from mesh.runtime.interception.interceptor_runner import InterceptorRunner
from mesh.runtime.interception.messages import read_answer
from mesh.runtime.interception.topic_names import TopicNames
from mesh.security.principals import ANONYMOUS
from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.passing import REQUEST_HEAD, RequestHead
from mesh.wire.trees import Tree, write_tree

CORRELATION = 77
ORDERS, OTHERS, NOBODY = UUID(int=1), UUID(int=2), UUID(int=3)


class Cluster:
    """Knows the names of topics. asked: the ids that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[UUID]] = []
        self.names: dict[UUID, str] = {ORDERS: "orders", OTHERS: "others"}

    async def metadata(self, request: Tree) -> Tree:
        ids = [each["topic_id"] for each in request["topics"]]
        self.asked.append(ids)
        topics = [
            {"topic_id": id, "name": self.names.get(id), "error_code": 0 if id in self.names else 100} for id in ids
        ]
        return {"topics": topics}


def interceptors_of(
    interceptor: Interceptor, on_failure: OnFailure = OnFailure.FAIL, cluster: Cluster | None = None
) -> Interceptors:
    """An interceptor that sees the records of `orders`, on both sides."""
    name = InterceptorName("it")
    configured = ConfiguredInterceptor(
        name,
        "it",
        ("orders",),
        frozenset(On),
        ("*",),
        60.0,
        0,
        on_failure,
        Isolation.INLINE,
        interceptor.effect is Effect.FILTER,
    )
    return Interceptors(
        InterceptorRunner("front", {name: ChainStep(name, interceptor, on_failure)}, None, time.monotonic),
        Selection([configured], lambda topic: [InterceptionPoint((configured,), topic)]),
        TopicNames((cluster or Cluster()).metadata),
        Sequences(1 << 20),
    )


def client_of(
    interceptor: Interceptor,
    on_failure: OnFailure = OnFailure.FAIL,
    cluster: Cluster | None = None,
    may_write: bool = True,
) -> InterceptedClient:
    """A client with the interceptor of `interceptors_of`."""
    return InterceptedClient(interceptors_of(interceptor, on_failure, cluster), lambda: ANONYMOUS, lambda _: may_write)


def framed(api_key: ApiKey, version: int, tree: Mapping[str, Any]) -> tuple[RequestHead, memoryview]:
    tags = b"\0" if is_flexible(api_key, version) else b""
    client_id = b"\0\6client" + tags
    body = write_tree(api_key, version, Direction.REQUEST, dict(tree))
    head = RequestHead(8 + len(client_id) + len(body), api_key, version, CORRELATION)
    return head, memoryview(bytearray(REQUEST_HEAD.pack(*head) + client_id + body))


def answered(api_key: ApiKey, version: int, tree: Mapping[str, Any]) -> memoryview:
    tags = b"\0" if has_tagged_response_header(api_key, version) else b""
    body = write_tree(api_key, version, Direction.RESPONSE, dict(tree))
    header = CORRELATION.to_bytes(4, "big") + tags
    return memoryview((len(header) + len(body)).to_bytes(4, "big") + header + body)


def read(head: RequestHead, pieces: Sequence[Any] | None) -> Tree:
    """The contents of an answer, after a check of its length."""
    assert pieces is not None
    whole = b"".join(pieces)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    assert int.from_bytes(whole[4:8], "big") == head.correlation_id
    return read_answer(head, memoryview(whole))[1]
