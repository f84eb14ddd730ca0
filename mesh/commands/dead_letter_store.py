"""`kafka-mesh dlq`: reads the dead letters of pools, and produces them to their original topics again.

A letter counts as redriven according to the offset of the tool's own group. That commit, with runs above it as in
`mesh.pool.offsets.metadata`, is made in one transaction with the records. So a redrive may be interrupted and repeated,
and a second one at the same time is fenced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from mesh.app.from_config import properties_of
from mesh.config.model import Cluster, Config
from mesh.config.pool import NamedTopic, PoolConfig, PrefixRuleConfig
from mesh.pool.offsets.metadata import pack, unpack
from mesh.pool.offsets.payload import ForeignMetadata
from mesh.pool.state.ledger import Ledger
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.librdkafka_log import LOG
from mesh.upstream.librdkafka_properties import connection_properties

GROUP = "kafka-mesh.redrive"
PREFIX = "kafka-mesh."
TIMEOUT = 15.0
BUNDLE = 500
"""The most dead letters in one transaction."""
METADATA_LIMIT = 4_000

Headers = list[tuple[str, str | bytes | None]]


class LettersUnavailable(Exception):
    """Raised when a cluster does not answer, or when a letter does not exist. The message is one line."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter. about: the headers of the mesh, by name without their prefix. headers: the record's own
    headers."""

    place: UpstreamPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    about: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{self.place}@{self.offset}"

    @property
    def is_readable(self) -> bool:
        """Returns whether it is one record. A damaged batch is kept as its bytes."""
        return "unreadable" not in self.about

    def as_json(self) -> dict[str, Any]:
        return {"letter": self.name, **self.about, "timestamp": self.timestamp}


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """A filter for dead letters; a field that is None matches any. topic: the topic from which a record came."""

    cluster: str | None = None
    topic: str | None = None
    group: str | None = None
    member: str | None = None

    def __call__(self, letter: Letter) -> bool:
        wanted = {"cluster": self.cluster, "topic": self.topic, "group": self.group, "member": self.member}
        return all(value is None or letter.about.get(name) == value for name, value in wanted.items())


class DeadLetterTopics:
    """The dead-letter topics of one upstream cluster. Every method raises LettersUnavailable if the cluster does not
    answer."""

    def __init__(self, cluster: Cluster, pools: Iterable[PoolConfig]) -> None:
        self.cluster = cluster
        self._patterns = [pattern for pool in pools for pattern in _patterns(pool, cluster.name)]
        properties = properties_of(cluster)
        self._properties = {**connection_properties(properties), "bootstrap.servers": cluster.bootstrap_servers}
        # With read_committed this would wait for a redrive that was killed, until its transaction times out.
        reading = {"group.id": GROUP, "enable.auto.commit": False, "isolation.level": "read_uncommitted", "logger": LOG}
        self._consumer = Consumer({**self._properties, **reading})

    def close(self) -> None:
        self._consumer.close()

    def ledgers(self) -> dict[UpstreamPartition, Ledger]:
        """Returns the redriven offsets of each partition."""
        places = self._places()
        asked = [TopicPartition(place.topic, place.partition) for place in places]
        ledgers: dict[UpstreamPartition, Ledger] = {}
        for place, answer in zip(places, self._ask(self._consumer.committed, asked), strict=True):
            low, _ = self._ask(self._consumer.get_watermark_offsets, TopicPartition(place.topic, place.partition))
            base = answer.offset
            try:
                runs = unpack(place, base, answer.metadata or "").runs if base >= 0 else ()
            except ForeignMetadata:
                runs = ()
            ledgers[place] = Ledger(max(base, low), settled=runs)
        return ledgers

    def read(self, place: UpstreamPartition, ledger: Ledger) -> Iterator[Letter]:
        """Yields the letters that were not redriven, up to the current end of the topic."""
        _, end = self._ask(self._consumer.get_watermark_offsets, TopicPartition(place.topic, place.partition))
        where = TopicPartition(place.topic, place.partition, ledger.committable)
        self._consumer.assign([where])
        while self._position(where) < end:
            message = self._ask(self._consumer.poll)
            if message is None or message.error() is not None:
                raise LettersUnavailable(f"{place}: {message.error().str() if message else 'no answer in time'}")
            letter = _letter(place, message)
            if not ledger.is_settled(letter.offset):
                yield letter

    def redrive(self, letters: Sequence[Letter], ledger: Ledger, producer: Producer) -> None:
        """Produces the records of letters to their original topics, and marks the letters, in one transaction. Raises
        LettersUnavailable if there is no room for the marks; then nothing is written."""
        place = letters[0].place
        for letter in letters:
            ledger.settle(letter.offset, letter.offset)
        packed = pack(place, ledger.committable, ledger, METADATA_LIMIT)
        if packed.covered is not None:  # an unmarked letter would be redriven again the next time
            raise LettersUnavailable(f"{place}: too many letters between others were left out; redrive those first")
        producer.begin_transaction()
        for letter in letters:
            timestamp: dict[str, Any] = {"timestamp": letter.timestamp} if letter.timestamp > 0 else {}
            producer.produce(letter.about["topic"], letter.value, letter.key, headers=letter.headers, **timestamp)
        mark = TopicPartition(place.topic, place.partition, ledger.committable, packed.text)
        producer.send_offsets_to_transaction([mark], self._consumer.consumer_group_metadata())
        producer.commit_transaction()

    def producer(self) -> Producer:
        """Returns a transactional producer. Raises LettersUnavailable."""
        producer = Producer({**self._properties, "transactional.id": f"{GROUP}.{self.cluster.name}"})
        self._ask(lambda timeout: producer.init_transactions(timeout))
        return producer

    def _position(self, where: TopicPartition) -> int:
        (found,) = self._consumer.position([where])
        return int(found.offset) if found.offset >= 0 else where.offset

    def _places(self) -> list[UpstreamPartition]:
        topics = self._ask(AdminClient(self._properties).list_topics).topics
        return [
            UpstreamPartition(self.cluster.name, TopicName(name), partition)
            for name, topic in sorted(topics.items())
            if any(pattern.fullmatch(name) for pattern in self._patterns)
            for partition in sorted(topic.partitions)
        ]

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(*arguments, timeout=TIMEOUT)
        except KafkaException as problem:
            raise LettersUnavailable(f"{self.cluster.name}: {problem.args[0].str()}") from problem


def dead_letter_topics(config: Config, only: str | None = None) -> Iterator[DeadLetterTopics]:
    """Yields the dead-letter topics of every cluster of a pool with dead letters. only: the name of one cluster. Raises
    LettersUnavailable."""
    pools = [each for each in config.all_pools() if each.dead_letters is not None]
    if not pools:
        raise LettersUnavailable("no pool of this configuration has dead_letters; configure it first")
    for cluster in config.clusters:
        if only in (None, cluster.name):
            topics = DeadLetterTopics(cluster, pools)
            try:
                yield topics
            finally:
                topics.close()


def _patterns(pool: PoolConfig, cluster: ClusterName) -> Iterator[re.Pattern[str]]:
    """Yields patterns of the names of a pool's dead-letter topics on a cluster."""
    assert pool.dead_letters is not None
    before, placeholder, after = pool.dead_letters.topic.partition("{topic}")
    for rule in pool.topics:
        match rule:
            case NamedTopic():
                names = [re.escape(source.topic) for source in rule.sources if source.cluster == cluster]
            case PrefixRuleConfig():
                names = [re.escape(rule.prefix) + ".*"] if rule.cluster == cluster else []
        for name in names:
            yield re.compile(re.escape(before) + (name if placeholder else "") + re.escape(after))


def _letter(place: UpstreamPartition, message: Message) -> Letter:
    headers: Headers = list(message.headers() or ())  # type: ignore[arg-type]
    about = {
        name.removeprefix(PREFIX): (value if isinstance(value, str) else (value or b"").decode(errors="replace"))
        for name, value in headers
        if name.startswith(PREFIX)
    }
    own = [(name, value) for name, value in headers if not name.startswith(PREFIX)]
    key, value = message.key(), message.value()
    offset = message.offset()
    assert offset is not None
    return Letter(place, offset, _bytes(key), _bytes(value), own, message.timestamp()[1], about)


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
