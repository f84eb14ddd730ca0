"""The requests of a router's clients that do not pass. Each is divided among the leaves, and their responses are
merged."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Final
from uuid import UUID

from mesh.routing.guards.elements import topic_ids_in
from mesh.routing.guards.judge import Judge
from mesh.routing.kit.broker_configs import CONFIGS, by_broker, joined_configs
from mesh.routing.kit.division import Division
from mesh.routing.kit.entity_lists import entity_lists
from mesh.routing.kit.errors import error_answer, top_level_error
from mesh.routing.kit.merge import joined, merge
from mesh.routing.kit.refusals import code_when_down
from mesh.routing.kit.split import split
from mesh.routing.kit.streams import topic_elsewhere
from mesh.routing.kit.union_apis import UNION_APIS, LeafDestination
from mesh.routing.moves.translation import WRITING, fetched_elsewhere
from mesh.routing.names import LeafNumber
from mesh.routing.translation import HomeUnknown
from mesh.runtime.entity_router.asking import Asker, ask
from mesh.runtime.entity_router.entities import RouterEntities
from mesh.runtime.entity_router.groups.offsets import OffsetOf
from mesh.runtime.entity_router.groups.requests import RouterGroupRequests
from mesh.runtime.entity_router.groups.services import GroupProblems
from mesh.runtime.entity_router.judged_metadata import answer as answer_judged
from mesh.runtime.entity_router.leaves import Leaves, RouterLeaf
from mesh.runtime.entity_router.metadata import RouterMetadata
from mesh.runtime.entity_router.moves.gate import WriteGate
from mesh.telemetry.log_rate import LogRate
from mesh.telemetry.logs import get_logger
from mesh.wire.addresses import carries_addresses, with_addresses
from mesh.wire.apis import ApiKey, has_tagged_response_header
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode
from mesh.wire.fetched_topics import check_topic
from mesh.wire.messages import Buffer
from mesh.wire.passing import REQUEST_HEAD, RequestHead
from mesh.wire.produce_batches import body_of
from mesh.wire.reader import INT32
from mesh.wire.trees import Tree, read_tree, topic_of, write_tree

log = get_logger(__name__)

_NO_TAGS: Final = b"\0"
_OF_THE_NODE: Final = frozenset({LeafDestination.OWN_NODE, LeafDestination.COORDINATOR, LeafDestination.OFFSETS})
"""Requests that only the node answers to which the client connected. Clients take it for the leader or coordinator."""
_FIRST_ABORTABLE: Final = 11
"""The first version of Produce with TRANSACTION_ABORTABLE (KIP-890)."""


class RouterRequests:
    """Answers the requests that are divided. timeout: seconds that a leaf has, beyond the wait that a request asks for.
    problems: takes problems of groups."""

    def __init__(self, leaves: Leaves, metadata: RouterMetadata, timeout: float, problems: GroupProblems) -> None:
        self._leaves = leaves
        self._metadata = metadata
        self._entities = RouterEntities(leaves, metadata)
        self.timeout = timeout
        self._log_rate: Final = LogRate()
        self._groups = RouterGroupRequests(leaves, self._entities, lambda: self.timeout, problems)
        self.gate: WriteGate | None = None

    def close(self) -> None:
        self._groups.close()

    def leaves_changed(self) -> None:
        self._metadata.leaves_changed()

    async def answer(self, asker: Asker, frame: bytes) -> list[Buffer]:
        """Answers a request. Returns the response with its length. frame: the request with its length. Raises
        ProtocolError."""
        head = RequestHead._make(REQUEST_HEAD.unpack_from(frame))
        api_key, version = ApiKey(head.api_key), head.api_version
        body = body_of(api_key, version, memoryview(frame))
        request = read_tree(api_key, version, Direction.REQUEST, memoryview(frame)[body:])
        if self.gate is None:
            return await self._answer(asker, frame, head, request)
        await self.gate.wait_to_pass(api_key, request)
        with self.gate.working(api_key):
            return await self._answer(asker, frame, head, request)

    def follow(self, gate: WriteGate, offset_of: OffsetOf) -> None:
        """Takes moves of topics into account. gate: stands in front of them. offset_of: returns the offsets of groups
        in moved topics."""
        self.gate = gate
        self._groups.follow(offset_of)

    async def _answer(self, asker: Asker, frame: bytes, head: RequestHead, request: Tree) -> list[Buffer]:
        api_key, version = ApiKey(head.api_key), head.api_version
        if api_key is ApiKey.METADATA:
            return _framed(head, await self._answer_metadata(asker, frame, request, version))
        if asker.judge is None:
            answer = _framed(head, await self._answer_divided(asker, api_key, version, request))
        else:
            answer = _framed(head, await self._answer_under_rules(asker, asker.judge, frame, request, api_key, version))
        if carries_addresses(api_key, version):
            return with_addresses(api_key, version, memoryview(b"".join(answer))[INT32.size :], self._entities)
        return answer

    @property
    def topic_names(self) -> RouterMetadata:
        """The Metadata of the router, which knows the names of topics by their ids."""
        return self._metadata

    async def _answer_metadata(self, asker: Asker, frame: bytes, request: Tree, version: int) -> Tree:
        if asker.judge is None:
            return await self._metadata.answer(request, version)
        judged = asker.judge.metadata(request, version)
        asker.refused(ApiKey.METADATA, frame, judged.refusals)
        return await answer_judged(judged, self._metadata, version)

    async def _answer_under_rules(
        self, asker: Asker, judge: Judge, frame: bytes, request: Tree, api_key: ApiKey, version: int
    ) -> Tree:
        if api_key is ApiKey.PRODUCE:
            request = self._with_leaf_producer_ids(asker, version, frame)
        await self._groups.learn(topic_ids_in(request, entity_lists(api_key, version)))
        judgement = judge.judgement(api_key, version, request)
        share_topics = judge.share_topics
        if judgement is None:
            answer = await self._answer_divided(asker, api_key, version, request, is_judged=True)
            _check_topics(api_key, request, answer, share_topics)
            return answer
        asker.refused(api_key, frame, judgement.refusals)
        if judgement.request is None:
            assert judgement.refused is not None, "nothing is left of it"
            return judgement.refused
        seen = self._entities.seen_with(judge.access)
        answer = await self._answer_divided(asker, api_key, version, judgement.request, seen, is_judged=True)
        _check_topics(api_key, judgement.request, answer, share_topics)
        if judgement.refused is not None:
            answer = _with_refused(Division(api_key, version, request, seen, {}, None), answer, judgement.refused)
        if judgement.complete is not None:
            answer = judgement.complete(answer)
            asker.refused(api_key, frame, judgement.later)
        return answer

    def _with_leaf_producer_ids(self, asker: Asker, version: int, frame: bytes) -> Tree:
        """A Produce request with the producer ids that its leaf knows."""
        copy = memoryview(bytearray(frame))
        body = body_of(ApiKey.PRODUCE, version, copy)
        with suppress(HomeUnknown):
            self._leaves.translation(asker.leaf).tag(version, copy, body)
        return read_tree(ApiKey.PRODUCE, version, Direction.REQUEST, copy[body:])

    async def _answer_divided(
        self,
        asker: Asker,
        api_key: ApiKey,
        version: int,
        request: Tree,
        seen: RouterEntities | None = None,
        *,
        is_judged: bool = False,
    ) -> Tree:
        """Divides a request among the leaves, and merges their responses. seen: the entities that the client sees; None
        for all. is_judged: True if rules have already removed the entities that the client may not use."""
        if not self._leaves.are_one_cluster:
            of_group = await self._groups.answer(asker, api_key, version, request)
            if of_group is not None:
                return of_group
        own, entities = asker.leaf.number, seen or self._entities
        if api_key is ApiKey.JOIN_GROUP and (topic := topic_elsewhere(request, self._leaves.names)) is not None:
            self._log_streams_refusal(request["group_id"], topic)
            return error_answer(api_key, version, request, ErrorCode.INVALID_TOPIC)
        if api_key is ApiKey.FETCH and not is_judged:
            return fetched_elsewhere(version, request)
        if (code := _refused_whole(api_key, version, request, entities, own, is_judged=is_judged)) is not None:
            return error_answer(api_key, version, request, code)
        division = split(api_key, version, request, entities, own)
        waits = max(request.get("timeout_ms", 0), request.get("max_wait_ms", 0), 0) / 1_000
        asked = {
            number: self._ask(asker, self._leaves.by_number[number], api_key, version, piece.request, waits)
            for number, piece in division.pieces.items()
        }
        answers = await asyncio.gather(*asked.values())
        known = {number: answer for number, answer in zip(asked, answers, strict=True) if answer is not None}
        if len(known) < len(asked) and api_key in WRITING and self.gate is not None:
            self.gate.passed_unanswered()
        return merge(division, known)

    def _log_streams_refusal(self, group: str, topic: str) -> None:
        left_out = self._log_rate.admit(asyncio.get_running_loop().time())
        if left_out is not None:
            log.warning(
                "Kafka Streams application refused: topic outside the home cluster of its group",
                group=group,
                topic=topic,
                left_out=left_out,
            )

    async def _ask(
        self, asker: Asker, leaf: RouterLeaf, api_key: ApiKey, version: int, request: Tree, waits: float
    ) -> Tree | int | None:
        """The response of a leaf, or an error code; None if there is no response."""
        node = None
        if UNION_APIS[api_key].destination in _OF_THE_NODE and not _is_anywhere(api_key, request):
            if leaf is not asker.leaf:
                return ErrorCode.NOT_COORDINATOR
            node = asker.node
        if api_key in CONFIGS:
            return await self._ask_about_configs(asker, leaf, api_key, version, request, waits)
        return await ask(asker.side_links, leaf, node, api_key, version, request, self.timeout, waits)

    async def _ask_about_configs(
        self, asker: Asker, leaf: RouterLeaf, api_key: ApiKey, version: int, request: Tree, waits: float
    ) -> Tree | None:
        """Asks each broker about its own configuration, and another one about the rest. A broker that hangs would delay
        both, since a broker handles one request of a connection at a time."""
        parts = by_broker(request, leaf.nodes.known)
        named = [node for node in parts if node is not None]
        asked = [
            ask(asker.side_links, leaf, node, api_key, version, part, self.timeout, waits, others_than=named)
            for node, part in parts.items()
        ]
        answers = await asyncio.gather(*asked)
        if len(answers) == 1:
            return answers[0]
        down = code_when_down(api_key)
        told = [
            error_answer(api_key, version, part, down) if answer is None else answer
            for part, answer in zip(parts.values(), answers, strict=True)
        ]
        return joined_configs(api_key, version, request, told)


def _is_anywhere(api_key: ApiKey, request: Tree) -> bool:
    """True if a request goes to any node of a home, and not to the coordinator there."""
    return api_key is ApiKey.FIND_COORDINATOR or (
        api_key is ApiKey.INIT_PRODUCER_ID and request["transactional_id"] is None
    )


def _refused_whole(
    api_key: ApiKey, version: int, request: Tree, union: RouterEntities, own: LeafNumber, *, is_judged: bool
) -> ErrorCode | None:
    """The error for all of a request that did not pass and cannot be divided, since the order of a connection's
    requests to one broker matters. None if the request is divided. is_judged: True if rules were applied to the
    request; then no earlier request is unfinished."""
    match api_key:
        case ApiKey.PRODUCE:
            name = request.get("transactional_id")
            if name is None or union.transaction_home(name) == own:
                return None if is_judged else ErrorCode.NOT_LEADER_OR_FOLLOWER
            is_abortable = version >= _FIRST_ABORTABLE
            return ErrorCode.TRANSACTION_ABORTABLE if is_abortable else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        case ApiKey.JOIN_GROUP | ApiKey.SYNC_GROUP:
            return ErrorCode.NOT_COORDINATOR
        case _:
            return None


def _check_topics(api_key: ApiKey, request: Tree, answer: Tree, share_topics: Collection[UUID]) -> None:
    """Raises ProtocolError for an answer with records of a topic that the judged request did not ask for. share_topics:
    those of its session, for a ShareFetch."""
    if api_key not in (ApiKey.FETCH, ApiKey.SHARE_FETCH):
        return
    topics = share_topics if api_key is ApiKey.SHARE_FETCH else {topic_of(each) for each in request["topics"]}
    for each in answer["responses"]:
        check_topic(topic_of(each), topics.__contains__)


def _with_refused(division: Division, answer: Tree, refused: Tree) -> Tree:
    """Adds the refused parts to a response. division: the division of the whole request. answer: the response to the
    rest of the request. If the rest has failed as a whole, the error is all that brokers would return."""
    error = top_level_error(division.api_key, division.version)
    if error is not None and answer.get(error):
        return answer
    return joined(division, [answer, refused])


def _framed(head: RequestHead, answer: Tree) -> list[Buffer]:
    api_key, version = ApiKey(head.api_key), head.api_version
    body = write_tree(api_key, version, Direction.RESPONSE, answer)
    tags = _NO_TAGS if has_tagged_response_header(api_key, version) else b""
    length = INT32.size + len(tags) + len(body)
    return [INT32.pack(length) + INT32.pack(head.correlation_id) + tags, body]
