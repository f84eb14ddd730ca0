"""Fetch requests and their responses on their way through interceptors.

A Fetch with a topic that an interceptor wants to see is sent without a fetch session, so that it names all its offsets.
If the batches at the end of a response are dropped, the consumer asks for their offsets again. The mesh then fetches
from the offset behind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from mesh.interceptors.chain import ChainResult
from mesh.interceptors.selection import Chosen
from mesh.interceptors.spi import On
from mesh.runtime.interception.client import InterceptedClient
from mesh.runtime.interception.interceptor_runner import InterceptorWork, NotIntercepted, Result
from mesh.runtime.interception.messages import (
    ReadRequest,
    TopicKey,
    body_of_answer,
    key_of,
    read_answer,
    written_answer,
)
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.fetched_topics import FetchedTopics, IsExpected
from mesh.wire.interception import Decision
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead
from mesh.wire.reader import INT16, INT32
from mesh.wire.trees import Tree

LARGEST_FETCH: Final = 16 << 20
"""The largest `max_bytes` of a Fetch whose response interceptors see."""
MOST_REMEMBERED: Final = 10_000
"""The most partitions of a connection whose next offset is remembered."""
_NO_SESSION: Final = -1
_NEW_SESSION: Final = 0

_ERRORS: Final = {
    NotIntercepted.TIMED_OUT: ErrorCode.KAFKA_STORAGE_ERROR,
    NotIntercepted.CORRUPT: ErrorCode.CORRUPT_MESSAGE,
    NotIntercepted.OLD_FORMAT: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}


class FetchRequests:
    """The Fetch requests of one client's connection. clock: returns the time in seconds."""

    def __init__(self, client: InterceptedClient, clock: Callable[[], float]) -> None:
        self.client: Final = client
        self.clock: Final = clock
        self._session: OpenedSession | None = None
        """The fetch session of this connection, with partitions that no interceptor wants to see."""
        self._ended: int | None = None
        """The id of its last session before that, which the client may still end at the broker."""
        self._go_on: dict[tuple[TopicKey, int], tuple[int, int]] = {}
        """The offset that a consumer will ask for, and the offset to fetch instead, by partition."""

    def handles(self, head: RequestHead) -> bool:
        return head.api_key == ApiKey.FETCH

    def decide(self, head: RequestHead, frame: memoryview) -> Decision | None:
        """Decides on a Fetch; None if the names of topics have to be looked up first. Raises ProtocolError."""
        request = ReadRequest.of(head, frame)
        if self.client.unknown([key_of(topic) for topic in request.tree["topics"]]):
            return None
        return self._decide(request)

    async def decide_later(self, head: RequestHead, frame: memoryview) -> Decision:
        """Decides on a Fetch after looking up the names of its topics. Raises ProtocolError."""
        request = ReadRequest.of(head, frame)
        await self.client.names.learn(self.client.unknown([key_of(topic) for topic in request.tree["topics"]]))
        return self._decide(request)

    def _decide(self, request: ReadRequest) -> Decision:
        tree = request.tree
        epoch = tree.get("session_epoch", _NO_SESSION)
        keys = [key_of(topic) for topic in tree["topics"]]
        is_wanted = not all(map(self._is_unwanted, keys))
        is_whole = epoch in (_NO_SESSION, _NEW_SESSION)
        if (is_wanted or is_whole) and self._session is not None:
            self._ended, self._session = self._session.id, None
        if not is_whole:
            if self._session is None or self._session.id != tree["session_id"]:
                return Decision(None, request.answered(_session_unknown()))
            return self._passed(request)
        if tree.get("session_id", 0) not in (0, self._ended):  # the broker would end a session of another connection
            request = request.changed({**tree, "session_id": 0})
        if is_wanted:
            return self._without_session(request)
        return self._passed(request) if epoch == _NO_SESSION else self._in_new_session(request)

    def _is_unwanted(self, topic: TopicKey) -> bool:
        """Returns True if no interceptor wants to see a topic. One may want to see a topic whose name is unknown."""
        return self.client.name_of(topic) is not None and self.client.chosen(topic, On.FETCH) is None

    def _passed(self, request: ReadRequest) -> Decision:
        """Lets the answer pass as it comes, if no interceptor wants to see its topics."""
        return Decision([request.frame], check=_check_of(request.head, self._is_unwanted))

    def _in_new_session(self, request: ReadRequest) -> Decision:
        """Waits for the whole answer, to learn the id of the session. So its size is limited."""
        tree, self._session = request.tree, OpenedSession(request.head, self._is_unwanted)
        is_small = tree["max_bytes"] <= LARGEST_FETCH
        frame = [request.frame] if is_small else request.with_tree({**tree, "max_bytes": LARGEST_FETCH})
        return Decision(frame, change=self._session)

    def _without_session(self, request: ReadRequest) -> Decision:
        tree = request.tree
        if "session_epoch" in tree:
            tree["session_epoch"] = _NO_SESSION
        tree["max_bytes"] = min(tree["max_bytes"], LARGEST_FETCH)
        asked: dict[tuple[TopicKey, int], int] = {}
        passed_over: set[tuple[TopicKey, int]] = set()
        for topic in tree["topics"]:
            for partition in topic["partitions"]:
                place = key_of(topic), partition["partition"]
                asked[place] = partition["fetch_offset"]
                known = self._go_on.get(place)
                if known is None:
                    continue
                if known[0] == partition["fetch_offset"]:
                    partition["fetch_offset"] = known[1]
                    passed_over.add(place)
                else:
                    del self._go_on[place]
        change = InterceptedFetchAnswer(
            self, request, asked, passed_over, self.clock() + max(tree["max_wait_ms"], 0) / 1_000
        )
        return Decision(request.with_tree(tree), change=change)

    def go_on_at(self, place: tuple[TopicKey, int], asked: int, offset: int) -> None:
        """Replaces the offset of a partition in the client's next Fetch, if it asks for `asked`, by `offset`."""
        if len(self._go_on) >= MOST_REMEMBERED:
            self._go_on.clear()
        self._go_on[place] = asked, offset

    def forget(self, place: tuple[TopicKey, int]) -> None:
        self._go_on.pop(place, None)


class OpenedSession:
    """A fetch session, known from the response that opens it, which passes unchanged. Implements
    `mesh.wire.interception.AnswerChange`.

    A broker lets any connection continue a session if it knows the id. It judges the request by its principal, which is
    that of the mesh. So a client that guesses the id of another connection's session could get records that no
    interceptor has seen. id: None before the response.
    """

    def __init__(self, head: RequestHead, is_expected: IsExpected) -> None:
        self._head: Final = head
        self._is_expected: Final = is_expected
        self.id: int | None = None

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        _check_of(self._head, self._is_expected).feed(answer)
        spans = body_of_answer(self._head, answer)
        spans.skip(INT32.size + INT16.size)  # throttle_time_ms, error_code
        self.id = spans.int32()
        return [answer]


class InterceptedFetchAnswer:
    """The response to a Fetch on its way to the client. Implements `mesh.wire.interception.AnswerChange`.

    asked: the offsets that the client asks for. passed_over: partitions for which the mesh asked the cluster for a
    later offset. until: the time on the clock until which the client waits at least.
    """

    def __init__(
        self,
        requests: FetchRequests,
        request: ReadRequest,
        asked: dict[tuple[TopicKey, int], int],
        passed_over: set[tuple[TopicKey, int]],
        until: float,
    ) -> None:
        self._requests: Final = requests
        self._request: Final = request
        self._asked: Final = asked
        self._passed_over: Final = passed_over
        self._until: Final = until

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        head, client = self._request.head, self._requests.client
        start, tree = read_answer(head, answer)
        await client.names.learn(client.unknown([key_of(topic) for topic in tree["responses"]]))
        works: list[InterceptorWork] = []
        places: list[tuple[TopicKey, Tree]] = []
        is_changed = has_failed = False
        for topic in tree["responses"]:
            key = key_of(topic)
            for partition in topic["partitions"]:
                if (key, partition["partition_index"]) not in self._asked:
                    raise ProtocolError("unexpected_response", f"a Fetch answer with {key}, which was not asked for")
                if partition["error_code"]:
                    is_changed |= self._lost(key, partition)
                elif not partition["records"]:
                    continue
                elif client.name_of(key) is None:
                    _fail(partition, ErrorCode.UNKNOWN_TOPIC_ID)
                    is_changed = True
                elif (chosen := client.chosen(key, On.FETCH)) is not None:
                    works.append(self._work(chosen, key, partition))
                    places.append((key, partition))
        for (key, partition), result in zip(places, await client.runner.run(works), strict=True):
            is_changed |= self._take(key, partition, result)
            has_failed |= bool(partition["error_code"])
        if has_failed:
            # Without this pause clients would ask again at once, and interceptors would see the same records again.
            await asyncio.sleep(max(self._until - self._requests.clock(), 0.0))
        return written_answer(head, answer, start, tree) if is_changed else [answer]

    def _work(self, chosen: Chosen, key: TopicKey, partition: Tree) -> InterceptorWork:
        aborted = tuple((each["producer_id"], each["first_offset"]) for each in partition["aborted_transactions"] or ())
        client, request = self._requests.client, self._request
        index, records = partition["partition_index"], partition["records"]
        return client.work(chosen, key, index, On.FETCH, records, request.client_id, aborted)

    def _take(self, key: TopicKey, partition: Tree, result: Result) -> bool:
        """Puts the result of the interceptors into a partition. Returns True if the response has changed."""
        place = key, partition["partition_index"]
        if isinstance(result, NotIntercepted):
            _fail(partition, _ERRORS[result])
            return True
        if result.is_failed:
            _fail(partition, ErrorCode.KAFKA_STORAGE_ERROR)
            return True
        self._remember(place, result)
        if result.records is None:
            return False
        partition["records"] = result.records
        return True

    def _remember(self, place: tuple[TopicKey, int], judged: ChainResult) -> None:
        asked = self._asked.get(place)
        if judged.next_offset <= judged.kept_until or asked is None:
            self._requests.forget(place)
        else:
            self._requests.go_on_at(place, max(judged.kept_until, asked), judged.next_offset)

    def _lost(self, key: TopicKey, partition: Tree) -> bool:
        """Handles a partition that the cluster answered with an error. Returns True if the response has changed.
        Records beside an error would pass unseen, so they do not pass."""
        has_records, partition["records"] = bool(partition["records"]), b""
        place = key, partition["partition_index"]
        self._requests.forget(place)
        if place in self._passed_over and partition["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE:
            # The mesh's later offset is out of range, not the client's. The client retries with its own offset.
            _fail(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return True
        return has_records


def _check_of(head: RequestHead, is_expected: IsExpected) -> FetchedTopics:
    return FetchedTopics(ApiKey.FETCH, head.api_version, is_expected)


def _fail(partition: Tree, code: ErrorCode) -> None:
    nothing = {"high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1, "aborted_transactions": None}
    partition.update({**nothing, "error_code": int(code), "records": b""})


def _session_unknown() -> Tree:
    return {"error_code": int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND), "session_id": 0, "responses": []}
