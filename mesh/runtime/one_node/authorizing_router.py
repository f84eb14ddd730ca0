"""The requests of one client under rules. Refused parts are removed before a request is divided, and answered as by a
broker with the same ACLs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.routing.guards.authorization import Judgement
from mesh.routing.guards.elements import topic_ids_in
from mesh.routing.guards.judge import Judge
from mesh.routing.kit.entity_lists import entity_lists
from mesh.routing.kit.errors import top_level_error
from mesh.routing.kit.merge import arrays_of
from mesh.routing.spi import Disconnect, Request, Respond, RespondWithoutReply, Router, RouterContext, RouterResult
from mesh.runtime.one_node.cluster import OneNodeCluster
from mesh.security.rules import Operation, Refusal, ResourceType
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree

_FIRST_WITH_NULL: Final = 1
"""In v0 of Metadata, an empty list means all topics."""


class AuthorizingRouter(Router):
    """The router of one connection whose client is under rules. inner: the router without rules."""

    def __init__(self, inner: Router, client: ClientTransport, cluster: OneNodeCluster, listener: Listener) -> None:
        self._inner: Final = inner
        self._client: Final = client
        self._cluster: Final = cluster
        self._listener: Final = listener
        self._judge: Final = Judge(client, cluster)
        self._turn: Final = asyncio.Lock()

    async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
        if request.api is ApiKey.METADATA:
            return Respond(await self._metadata(request, context))
        if request.api is ApiKey.DESCRIBE_TOPIC_PARTITIONS and not request.body["topics"]:
            names = await self._cluster.topics()
            seen = [name for name in names if self._judge.access.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)]
            if not seen:  # an empty list would ask for all topics
                return Respond({"topics": []})
            request = replace(request, body=request.body | {"topics": [{"name": name} for name in seen]})
        async with self._turn:  # keep the order: later requests wait while this one resolves its topic names
            await self._cluster.look_up_ids(topic_ids_in(request.body, entity_lists(request.api, request.version)))
        judgement = self._judge.judgement(request.api, request.version, request.body)
        if judgement is None:
            return await self._inner.on_request(request, context)
        self._audit(request, context, judgement.refusals)
        return await self._answer_judged(request, context, judgement)

    def close(self) -> None:
        self._inner.close()

    async def _answer_judged(self, request: Request, context: RouterContext, judgement: Judgement) -> RouterResult:
        if judgement.refused is not None and not request.wants_answer:
            return Disconnect("something in a Produce is not allowed, and its client wants no answer that could say so")
        if judgement.request is None:
            assert judgement.refused is not None, "nothing is left of it"
            return Respond(judgement.refused)
        result = await self._inner.on_request(replace(request, body=judgement.request), context)
        match result:
            case Respond(body=body):
                answer = body if judgement.refused is None else _with_refused(request, body, judgement.refused)
                if judgement.complete is not None:
                    answer = judgement.complete(answer)
                    self._audit(request, context, judgement.later)
                return Respond(answer)
            case RespondWithoutReply() | Disconnect():
                return result

    async def _metadata(self, request: Request, context: RouterContext) -> Tree:
        judged = self._judge.metadata(request.body, request.version)
        self._audit(request, context, judged.refusals)
        answers = []
        for body in judged.requests:
            is_nothing = body["topics"] == [] and bool(judged.refused)
            version = max(request.version, _FIRST_WITH_NULL) if is_nothing else request.version
            result = await self._inner.on_request(replace(request, version=version, body=body), context)
            assert isinstance(result, Respond), "it is always answered"
            answer = result.body
            is_all = body["topics"] is None or (not body["topics"] and version < _FIRST_WITH_NULL)
            if is_all:
                seen = [topic for topic in answer["topics"] if topic["name"] is None or judged.sees(topic["name"])]
                answer = answer | {"topics": seen}
            answers.append(answer)
        return judged.complete(answers)

    def _audit(self, request: Request, context: RouterContext, refusals: Iterable[Refusal]) -> None:
        for each in refusals:
            now = self._listener.now()
            self._listener.audit.refused(self._client, request.api, context.client_id, each, now)


def _with_refused(request: Request, answer: Tree, refused: Tree) -> Tree:
    """Adds the refused parts to a response. answer: the response to the rest of the request. If the rest has failed as
    a whole, the error is all that brokers would return."""
    error = top_level_error(request.api, request.version)
    if error is not None and answer.get(error):
        return answer
    return answer | arrays_of(request.api, request.version, request.body, [answer, refused])
