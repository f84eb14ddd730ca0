"""Produce requests on their way through interceptors, partition by partition.

If an interceptor refuses a record, the mesh sends nothing of that partition. It sends the other partitions, and the
response names the refused records (KIP-467). If no record of a partition is kept, the response says that they were
stored, without an offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never

from mesh.interceptors.chain import ChainResult, Rejected
from mesh.interceptors.selection import Chosen
from mesh.interceptors.sequences import KnownBatch, NewBatch, Numbered, Sequences, Unsequenced
from mesh.interceptors.spi import On
from mesh.runtime.interception.client import InterceptedClient
from mesh.runtime.interception.filtered import MOST_ROUNDS, NOT_STORED, Filtered, Replaced
from mesh.runtime.interception.interceptor_runner import InterceptorWork, NotIntercepted, Result
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
    NotIntercepted.TIMED_OUT: (ErrorCode.REQUEST_TIMED_OUT, "the interceptors have not answered in time"),
    NotIntercepted.CORRUPT: (ErrorCode.CORRUPT_MESSAGE, "the records are no batches, or a checksum is wrong"),
    NotIntercepted.OLD_FORMAT: (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "records of a format of before Kafka 0.11"),
}

_FIRST_WITH_LOG_START: Final = 5
"""The first version of Produce whose response has the log start offset, and with it UNKNOWN_PRODUCER_ID."""
_LOG_START: Final = -2
"""The log start offset in the response for a partition with an unknown producer. With -1 the Java client asks again and
again. With an offset above all that it knows, it takes its records for deleted, and begins at sequence 0 in the same
epoch (TransactionManager.canRetry)."""


class ProduceRequests:
    """The Produce requests of one client."""

    def __init__(self, client: InterceptedClient) -> None:
        self._client: Final = client

    def handles(self, head: RequestHead) -> bool:
        return head.api_key == ApiKey.PRODUCE

    def decide(self, head: RequestHead, frame: memoryview) -> Decision | None:
        """Decides on a request; None if interceptors have to see its records first. Raises ProtocolError."""
        found, client = topics_of_produce(head, frame), self._client
        if found is None:
            return None
        topics, acks = found
        if client.unknown(topics) or any(client.chosen(each, On.PRODUCE) for each in topics):
            return None
        return Decision([frame], is_answered=acks != 0)

    async def decide_later(self, head: RequestHead, frame: memoryview) -> Decision:
        """Decides on a request after interceptors have seen its records. Raises ProtocolError."""
        request = ReadRequest.of(head, frame)
        client = self._client
        await client.names.learn(client.unknown([key_of(topic) for topic in request.tree["topic_data"]]))
        pending = _PendingProduce(request)
        for topic in request.tree["topic_data"]:
            key = key_of(topic)
            for partition in topic["partition_data"]:
                if client.name_of(key) is None:
                    # The mesh does not know whether an interceptor wants to see it. Clients ask for Metadata, and send
                    # the records again.
                    pending.answer(key, _answer_to(partition["index"], ErrorCode.UNKNOWN_TOPIC_ID))
                elif partition["records"] and (chosen := client.chosen(key, On.PRODUCE)) is not None:
                    self._begin(pending, key, partition, chosen)
        for _ in range(MOST_ROUNDS):
            places, pending.places = pending.places, []
            if not places:
                break
            results = await client.runner.run([self._work(request, place) for place in places])
            for place, result in zip(places, results, strict=True):
                self._take(pending, place, result)
        for place in pending.places:
            pending.refuse(place, NotIntercepted.TIMED_OUT)
        return _decision(pending, client.sequences)

    def _begin(self, pending: _PendingProduce, key: TopicKey, partition: Tree, chosen: Chosen) -> None:
        """Adds a partition whose records interceptors must see to those to be judged, or answers it at once."""
        place = _PendingPartition(key, partition, chosen)
        if not chosen.may_drop:
            pending.places.append(place)
            return
        name = self._client.name_of(key)
        assert name is not None, "interceptors are chosen by the name"
        filtered = Filtered.of(partition["records"], name, partition["index"])
        if isinstance(filtered, NotIntercepted):
            pending.refuse(place, filtered)
            return
        place.filtered = filtered
        self._go_on(pending, place, filtered.plan(self._client.sequences))

    def _go_on(
        self, pending: _PendingProduce, place: _PendingPartition, plan: NewBatch | KnownBatch | Unsequenced
    ) -> None:
        match plan:
            case NewBatch():
                pending.places.append(place)
            case KnownBatch(dropped):
                place.decided = dropped
                pending.places.append(place)
            case Unsequenced():
                assert place.filtered is not None and place.filtered.sequenced is not None, "it has a sequence"
                self._client.runner.unsequenced(plan, place.filtered.sequenced)
                pending.answer(
                    place.key, _unsequenced(place.partition["index"], plan, pending.request.head.api_version)
                )
            case _:
                assert_never(plan)

    def _work(self, request: ReadRequest, place: _PendingPartition) -> InterceptorWork:
        index, records = place.partition["index"], place.partition["records"]
        client_id, decided = request.client_id, place.decided
        return self._client.work(place.chosen, place.key, index, On.PRODUCE, records, client_id, decided=decided)

    def _take(self, pending: _PendingProduce, place: _PendingPartition, result: Result) -> None:
        partition = place.partition
        if isinstance(result, NotIntercepted):
            pending.refuse(place, result)
        elif result.rejected or result.is_failed:
            refusal = _answer_to(partition["index"], ErrorCode.INVALID_RECORD, _text(result), result.rejected)
            pending.answer(place.key, refusal)
        elif place.filtered is None:
            pending.change(partition, result.records)
        else:
            self._take_filtered(pending, place, place.filtered, result)

    def _take_filtered(
        self, pending: _PendingProduce, place: _PendingPartition, filtered: Filtered, judged: ChainResult
    ) -> None:
        outcome = filtered.numbered(place.partition["records"], judged, self._client.sequences)
        match outcome:
            case Replaced(None):
                pending.answer(place.key, _answer_to(place.partition["index"], ErrorCode.NONE))
            case Replaced(records, numbered):
                pending.change(place.partition, records)
                if numbered is not None:
                    pending.numbered[place.key, place.partition["index"]] = numbered
            case NotIntercepted():
                pending.refuse(place, outcome)
            case KnownBatch() | Unsequenced():
                self._go_on(pending, place, outcome)
            case _:
                assert_never(outcome)


_Key: TypeAlias = tuple[TopicKey, int]
"""A topic, by name or id as in the request, and a partition."""


@dataclass(slots=True, eq=False)
class _PendingPartition:
    """A partition of a request whose records interceptors see. filtered: its batch, if interceptors may drop records.
    decided: as in `mesh.interceptors.chain.run_chain`."""

    key: TopicKey
    partition: Tree
    chosen: Chosen
    filtered: Filtered | None = None
    decided: int | None = None


@dataclass(slots=True, eq=False)
class _PendingProduce:
    """A Produce request while interceptors see it. places: the partitions still to be judged. answers: the responses of
    partitions that are not sent. numbered: the sequence numbers of partitions that are sent with other ones."""

    request: ReadRequest
    places: list[_PendingPartition] = field(default_factory=list)
    answers: dict[_Key, Tree] = field(default_factory=dict)
    numbered: dict[_Key, Numbered] = field(default_factory=dict)
    is_changed: bool = False

    def answer(self, key: TopicKey, answer: Tree) -> None:
        self.answers[key, answer["index"]] = answer

    def refuse(self, place: _PendingPartition, reason: NotIntercepted) -> None:
        self.answer(place.key, _answer_to(place.partition["index"], *_ERRORS[reason]))

    def change(self, partition: Tree, records: bytes | None) -> None:
        """Replaces the records of a partition. records: None if they stay."""
        if records is not None and records is not partition["records"]:
            partition["records"] = records
            self.is_changed = True


def _decision(pending: _PendingProduce, sequences: Sequences) -> Decision:
    request = pending.request
    is_answered = _acks(request.tree)
    change = _Answers(pending, sequences) if is_answered and (pending.answers or pending.numbered) else None
    if not pending.answers:
        frame = request.with_tree(request.tree) if pending.is_changed else [request.frame]
        return Decision(frame, change=change, is_answered=is_answered)
    left: list[Tree] = []
    for topic in request.tree["topic_data"]:
        key = key_of(topic)
        partitions = [each for each in topic["partition_data"] if (key, each["index"]) not in pending.answers]
        if partitions:
            left.append({**topic, "partition_data": partitions})
    if left:
        return Decision(request.with_tree({**request.tree, "topic_data": left}), change=change, is_answered=is_answered)
    answer = request.answered({"responses": _with_answers(request, [], pending.answers)}) if is_answered else None
    return Decision(None, answer, is_answered=is_answered)


class _Answers:
    """The response to a Produce request, completed by the mesh. Implements `mesh.wire.interception.AnswerChange`.

    It adds the mesh's responses for partitions that were not sent, and notes which numbered batches the broker did not
    store.
    """

    def __init__(self, pending: _PendingProduce, sequences: Sequences) -> None:
        self._request: Final = pending.request
        self._answers: Final = pending.answers
        self._numbered: Final = pending.numbered
        self._sequences: Final = sequences

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        start, tree = read_answer(self._request.head, answer)
        for topic in tree["responses"]:
            key = key_of(topic)
            for each in topic["partition_responses"]:
                numbered = self._numbered.get((key, each["index"]))
                if numbered is not None and each["error_code"] in NOT_STORED:
                    self._sequences.refused(numbered)
        if not self._answers:
            return [answer]
        tree["responses"] = _with_answers(self._request, tree["responses"], self._answers)
        return written_answer(self._request.head, answer, start, tree)


def _with_answers(request: ReadRequest, answered: Sequence[Tree], made: dict[_Key, Tree]) -> list[Tree]:
    """Returns the responses in the order of the request. answered: the broker's. made: the mesh's."""
    responses = {(key_of(topic), each["index"]): each for topic in answered for each in topic["partition_responses"]}
    topics: list[Tree] = []
    for topic in request.tree["topic_data"]:
        key = key_of(topic)
        places = [(key, each["index"]) for each in topic["partition_data"]]
        partitions = [each for place in places if (each := made.get(place) or responses.get(place)) is not None]
        name = {"name": topic["name"]} if "name" in topic else {"topic_id": topic["topic_id"]}
        topics.append({**name, "partition_responses": partitions})
    return topics


def _answer_to(index: int, code: ErrorCode, text: str = "", records: Sequence[Rejected] = ()) -> Tree:
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


def _unsequenced(index: int, why: Unsequenced, version: int) -> Tree:
    match why:
        case Unsequenced.UNKNOWN if version >= _FIRST_WITH_LOG_START:
            text = "records may be dropped here, and it is not known which ones of this producer were"
            return {**_answer_to(index, ErrorCode.UNKNOWN_PRODUCER_ID, text), "log_start_offset": _LOG_START}
        case Unsequenced.UNKNOWN | Unsequenced.OUT_OF_ORDER:
            return _answer_to(index, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        case Unsequenced.OLD_EPOCH:
            return _answer_to(index, ErrorCode.INVALID_PRODUCER_EPOCH)
        case _:
            assert_never(why)


def _text(judged: ChainResult) -> str:
    if judged.rejected:
        return f"{len(judged.rejected)} records were rejected: {judged.rejected[0].text}"
    failure = judged.failure
    return "interceptor failed" if failure is None else f"interceptor {failure.interceptor} failed"


def _acks(tree: Tree) -> bool:
    return bool(tree["acks"])
