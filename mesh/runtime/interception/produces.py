"""Produce requests on their way through interceptors, partition by partition.

Of a partition with a record that is refused nothing is sent; the others go on, and the answer says both (KIP-467).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mesh.interceptors.chain import Judged, Rejected
from mesh.interceptors.spi import On
from mesh.runtime.interception.client import InterceptedClient
from mesh.runtime.interception.judging import NotJudged, Result, Work
from mesh.runtime.interception.messages import (
    ReadRequest,
    TopicKey,
    key_of,
    read_answer,
    topics_of_produce,
    written_answer,
)
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.interception import Decision
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead
from mesh.wire.trees import Tree

_ERRORS: Final = {
    NotJudged.TIMED_OUT: (ErrorCode.REQUEST_TIMED_OUT, "the interceptors have not answered in time"),
    NotJudged.CORRUPT: (ErrorCode.CORRUPT_MESSAGE, "the records are no batches, or a checksum is wrong"),
    NotJudged.OLD_FORMAT: (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "records of a format of before Kafka 0.11"),
}


class ProduceRequests:
    """The Produce requests of one client."""

    def __init__(self, client: InterceptedClient) -> None:
        self._client: Final = client

    def takes(self, head: RequestHead) -> bool:
        return head.api_key == ApiKey.PRODUCE

    def decide(self, head: RequestHead, frame: memoryview) -> Decision | None:
        """What becomes of a request; None: interceptors have to see it. Raises ProtocolError."""
        topics = list(topics_of_produce(head, frame))
        client = self._client
        if client.unknown(topics) or any(client.chosen(each, On.PRODUCE) for each in topics):
            return None
        request_has_answer = _acks(ReadRequest.of(head, frame).tree) if not topics else True
        return Decision([frame], is_answered=request_has_answer)

    async def judged(self, head: RequestHead, frame: memoryview) -> Decision:
        """Raises ProtocolError."""
        request = ReadRequest.of(head, frame)
        client, tree = self._client, request.tree
        await client.names.learn(client.unknown([key_of(topic) for topic in tree["topic_data"]]))
        works: list[Work] = []
        places: list[tuple[TopicKey, Tree]] = []
        refused: dict[tuple[TopicKey, int], Tree] = {}
        for topic in tree["topic_data"]:
            key = key_of(topic)
            for partition in topic["partition_data"]:
                if client.name_of(key) is None:
                    # Whether an interceptor wants to see it is not known; clients ask for Metadata, and come again.
                    refused[key, partition["index"]] = _refused(partition["index"], ErrorCode.UNKNOWN_TOPIC_ID, "")
                elif partition["records"] and (chosen := client.chosen(key, On.PRODUCE)) is not None:
                    records = partition["records"]
                    works.append(client.work(chosen, key, partition["index"], On.PRODUCE, records, request.client_id))
                    places.append((key, partition))
        results = await client.judges.judged(works)
        is_changed = _take(places, results, refused)
        return _decision(request, refused, is_changed=is_changed)


def _take(
    places: Sequence[tuple[TopicKey, Tree]], results: Sequence[Result], refused: dict[tuple[TopicKey, int], Tree]
) -> bool:
    """Puts what has changed into the request, and what is refused into `refused`. Whether anything has changed."""
    is_changed = False
    for (key, partition), result in zip(places, results, strict=True):
        index = partition["index"]
        if isinstance(result, NotJudged):
            refused[key, index] = _refused(index, *_ERRORS[result])
        elif result.rejected or result.is_failed:
            refused[key, index] = _refused(index, ErrorCode.INVALID_RECORD, _text(result), result.rejected)
        elif result.records is not None:
            partition["records"] = result.records
            is_changed = True
    return is_changed


def _decision(request: ReadRequest, refused: dict[tuple[TopicKey, int], Tree], *, is_changed: bool) -> Decision:
    is_answered = _acks(request.tree)
    if not refused:
        frame = request.with_tree(request.tree) if is_changed else [request.frame]
        return Decision(frame, is_answered=is_answered)
    left: list[Tree] = []
    for topic in request.tree["topic_data"]:
        key = key_of(topic)
        partitions = [each for each in topic["partition_data"] if (key, each["index"]) not in refused]
        if partitions:
            left.append({**topic, "partition_data": partitions})
    if left:
        change = _Refusals(request, refused) if is_answered else None
        return Decision(request.with_tree({**request.tree, "topic_data": left}), change=change, is_answered=is_answered)
    answer = request.answered({"responses": _with_refused(request, [], refused)}) if is_answered else None
    return Decision(None, answer, is_answered=is_answered)


class _Refusals:
    """The refusals of the mesh, put into the answer to the rest. Implements `mesh.wire.interception.AnswerChange`."""

    def __init__(self, request: ReadRequest, refused: dict[tuple[TopicKey, int], Tree]) -> None:
        self._request: Final = request
        self._refused: Final = refused

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        start, tree = read_answer(self._request.head, answer)
        tree["responses"] = _with_refused(self._request, tree["responses"], self._refused)
        return written_answer(self._request.head, answer, start, tree)


def _with_refused(
    request: ReadRequest, answered: Sequence[Tree], refused: dict[tuple[TopicKey, int], Tree]
) -> list[Tree]:
    """In the order of the request."""
    responses = {(key_of(topic), each["index"]): each for topic in answered for each in topic["partition_responses"]}
    told: list[Tree] = []
    for topic in request.tree["topic_data"]:
        key = key_of(topic)
        places = [(key, each["index"]) for each in topic["partition_data"]]
        partitions = [each for place in places if (each := refused.get(place) or responses.get(place)) is not None]
        name = {"name": topic["name"]} if "name" in topic else {"topic_id": topic["topic_id"]}
        told.append({**name, "partition_responses": partitions})
    return told


def _refused(index: int, code: ErrorCode, text: str, records: Sequence[Rejected] = ()) -> Tree:
    errors = [{"batch_index": each.place, "batch_index_error_message": each.text} for each in records]
    return {
        "index": index,
        "error_code": int(code),
        "base_offset": -1,
        "log_append_time_ms": -1,
        "log_start_offset": -1,
        "record_errors": errors,
        "error_message": text or None,
    }


def _text(judged: Judged) -> str:
    if judged.rejected:
        return f"{len(judged.rejected)} records were rejected: {judged.rejected[0].text}"
    failure = judged.failure
    return "an interceptor failed" if failure is None else f"interceptor {failure.interceptor} failed"


def _acks(tree: Tree) -> bool:
    return bool(tree["acks"])
