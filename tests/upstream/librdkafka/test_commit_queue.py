"""One commit at a time; offsets of partitions of others are not sent; every commit is answered."""

from __future__ import annotations

from math import inf

from confluent_kafka import KafkaError, TopicPartition

from mesh.records.spans import CommitPosition, UpstreamPartition
from mesh.upstream.librdkafka.commit_queue import LONGEST_REST, SHORTEST_REST, CommitQueue, Errors
from tests.upstream.fakes import FakeConsumer, place
from tests.upstream.harness import source

OURS = {source("orders", 0), source("orders", 1)}


class Bed:
    def __init__(self) -> None:
        self.commits = CommitQueue()
        self.fake = FakeConsumer()
        self.answers: list[Errors] = []

    def offer(self, deadline: float = inf, **positions: int) -> None:
        self.commits.offer(
            {source("orders", int(name[1:])): CommitPosition(offset, "text") for name, offset in positions.items()},
            self.answers.append,
            deadline,
        )

    def send(self, ours: set[UpstreamPartition] = OURS) -> list[list[tuple[int, int, str | None]]]:
        self.commits.send(self.fake.consumer, ours)
        return [[(each.partition, each.offset, each.metadata) for each in commit] for commit in self.fake.commits]

    def answer(self, *partitions: TopicPartition, error: KafkaError | None = None) -> None:
        self.commits.on_commit(error, list(partitions))


def test_the_next_is_sent_when_the_one_in_flight_is_answered() -> None:
    bed = Bed()
    bed.offer(p0=5, p1=6)
    bed.offer(p0=7)
    assert bed.send() == bed.send() == [[(0, 5, "text"), (1, 6, "text")]]
    bed.answer(place(0, 5), place(1, 6))
    assert bed.answers == [{source("orders", 0): 0, source("orders", 1): 0}]
    assert bed.send()[1:] == [[(0, 7, "text")]]


def test_what_was_revoked_in_between_is_not_sent() -> None:
    bed = Bed()
    bed.offer(p0=5)
    bed.offer(p0=6, p1=6)
    bed.offer(p0=7)
    bed.send()
    bed.answer(place(0, 5))
    assert bed.send({source("orders", 1)})[1:] == [[(1, 6, "text")]]
    bed.answer(place(1, 6))
    bed.send({source("orders", 1)})
    assert bed.answers[1:] == [{source("orders", 0): 27, source("orders", 1): 0}, {source("orders", 0): 27}]
    assert not bed.commits.in_flight


def test_errors() -> None:
    bed = Bed()
    bed.fake.failures = [KafkaError(KafkaError._STATE)]
    bed.offer(p0=1)
    bed.offer(p0=2)
    bed.send()
    assert bed.answers == [{source("orders", 0): KafkaError._STATE}]
    bed.answer(place(0, 2), error=KafkaError(16))
    assert bed.answers[1:] == [{source("orders", 0): 16}]


def test_another_generation_means_a_rebalance() -> None:
    bed = Bed()
    bed.offer(p0=1)
    bed.send()
    bed.answer(place(0, 1), error=KafkaError(KafkaError.ILLEGAL_GENERATION))
    assert bed.answers == [{source("orders", 0): 27}]


def test_a_deadline() -> None:
    """A waiting commit fails at its deadline, and is never sent; one in flight fails once, and its answer is still
    awaited."""
    bed = Bed()
    bed.offer(deadline=3, p0=1, p7=1)
    bed.offer(deadline=4, p0=2)
    bed.offer(deadline=5, p0=3)
    bed.send()
    assert not bed.commits.expire(2.9)
    assert bed.commits.expire(3)
    assert bed.answers == [{source("orders", 0): 7, source("orders", 7): 27}]
    assert bed.commits.expire(4)
    assert bed.answers[1:] == [{source("orders", 0): 7}]
    assert not bed.commits.expire(4)
    assert len(bed.send()) == 1
    bed.answer(place(0, 1))
    assert [commit[0][:2] for commit in bed.send()] == [(0, 1), (0, 3)]
    bed.answer(place(0, 3))
    assert bed.answers[2:] == [{source("orders", 0): 0}]


def test_what_was_told_at_its_deadline_is_not_told_again_when_the_consumer_goes() -> None:
    bed = Bed()
    bed.offer(deadline=3, p0=1)
    bed.send()
    bed.commits.expire(3)
    bed.commits.abandon()
    assert bed.answers == [{source("orders", 0): 7}]
    assert not bed.commits.in_flight


def test_the_answer_to_another_commit_is_not_taken_for_ours() -> None:
    bed = Bed()
    bed.answer(place(0, 1))
    bed.offer(p0=1)
    bed.send()
    bed.answer(place(0, 2))
    bed.answer(place(0, 1), place(1, 1))
    assert bed.answers == []
    bed.answer(place(0, 1))
    assert bed.answers == [{source("orders", 0): 0}]


def test_without_a_consumer() -> None:
    bed = Bed()
    bed.offer(p0=1)
    bed.send()
    bed.commits.abandon()
    bed.offer(p0=2)
    bed.commits.send(None, OURS - OURS)
    assert bed.answers == [{source("orders", 0): 27}] * 2


def test_one_in_flight_is_asked_about_often_and_one_that_takes_long_less_often() -> None:
    bed = Bed()
    bed.offer(p0=5)
    bed.send()
    rests = [bed.commits.rest() for _ in range(40)]
    assert rests[0] == SHORTEST_REST
    assert rests == sorted(rests)
    assert rests[-1] == LONGEST_REST
    assert sum(rests[:5]) < LONGEST_REST
    bed.answer(place(0, 5))
    bed.offer(p0=6)
    bed.send()
    assert bed.commits.rest() == SHORTEST_REST


def of(topic: str, offset: int) -> TopicPartition:
    return TopicPartition(topic, 0, offset)


def offered(bed: Bed, *topics: str, deadline: float = inf) -> None:
    bed.commits.offer({source(topic): CommitPosition(5) for topic in topics}, bed.answers.append, deadline)


def sent(bed: Bed, *topics: str) -> list[list[str]]:
    """The topics of each commit so far."""
    bed.commits.send(bed.fake.consumer, {source(topic) for topic in topics})
    return [[each.topic for each in commit] for commit in bed.fake.commits]


def test_a_topic_that_is_refused_is_told_from_those_that_are_stored() -> None:
    """librdkafka gives all of them its error. Then each is committed by itself, and the next time the refused one alone
    is."""
    bed, refusal = Bed(), KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    all_of_them = ("a", "b", "c")
    offered(bed, *all_of_them)
    sent(bed, *all_of_them)
    bed.answer(*(of(each, 5) for each in all_of_them), error=refusal)
    assert bed.answers == []
    sent(bed, *all_of_them)
    while bed.commits.in_flight:
        (topic,) = sent(bed, *all_of_them)[-1]
        bed.answer(of(topic, 5), error=refusal if topic == "b" else None)
        sent(bed, *all_of_them)
    assert bed.answers == [{source("a"): 0, source("b"): 29, source("c"): 0}]
    assert sorted(each.topic for commit in bed.fake.commits[1:] for each in commit) == ["a", "b", "c"]
    bed.fake.commits.clear()
    offered(bed, *all_of_them)
    assert sent(bed, *all_of_them) == [["a", "c"]]
    bed.answer(of("a", 5), of("c", 5))
    assert sent(bed, *all_of_them)[1:] == [["b"]]
    bed.answer(of("b", 5))
    assert bed.answers[1:] == [dict.fromkeys(map(source, all_of_them), 0)]
    offered(bed, *all_of_them)
    assert sent(bed, *all_of_them)[2:] == [["a", "b", "c"]], "it is allowed again"


def test_what_is_known_of_a_commit_in_parts_is_told_at_its_deadline() -> None:
    bed, refusal = Bed(), KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    offered(bed, "a", "b", deadline=3)
    sent(bed, "a", "b")
    bed.answer(of("a", 5), of("b", 5), error=refusal)
    (first,) = sent(bed, "a", "b")[-1]
    bed.answer(of(first, 5))
    assert bed.commits.expire(3)
    (answer,) = bed.answers
    assert answer == {source(topic): 0 if topic == first else 7 for topic in ("a", "b")}
    offered(bed, "c")
    assert sent(bed, "a", "b", "c")[-1] == ["c"], "the rest of the older one is not sent"


def test_what_waits_when_the_consumer_goes_is_not_sent_by_the_next_one() -> None:
    bed = Bed()
    bed.offer(p0=1)
    bed.offer(p0=2)
    bed.send()
    bed.commits.abandon()
    assert bed.answers == [{source("orders", 0): 27}, {source("orders", 0): 27}]
    assert len(bed.send()) == 1


def test_what_may_be_sent_may_be_another_matter_for_one_commit() -> None:
    """A partition that begins is not open yet; and if it was revoked meanwhile, this member may not store its
    offsets."""
    bed = Bed()
    ours = {source("orders", 7)}
    bed.commits.offer({source("orders", 7): CommitPosition(1)}, bed.answers.append, ours=ours)
    assert len(bed.send()) == 1
    bed.answer(place(7, 1))
    bed.commits.offer({source("orders", 7): CommitPosition(1)}, bed.answers.append, ours=ours)
    ours.clear()
    assert len(bed.send()) == 1
    assert bed.answers == [{source("orders", 7): 0}, {source("orders", 7): 27}]
