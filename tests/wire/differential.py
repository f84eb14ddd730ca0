"""Messages of every API and version, changed in the ways in which two readers could understand them differently.

Kafka's classes and the readers of the mesh take the same bytes: both read the same, or the mesh refuses.

    python -m tests.wire.differential --seed 7 --messages 100000
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from mesh.wire.answer_walker import VERSIONS, AnswerWalker
from mesh.wire.apis import APIS, ApiKey, is_flexible
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.fetch import HIGHEST, decode_fetch_answer
from mesh.wire.connection import ServerConnection
from mesh.wire.decoder import decode_request
from mesh.wire.entities import Direction, Unchanged, program, program_with_partitions
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.one_partition import OnePartition, one_partition
from mesh.wire.produce_batches import body_of, parts_of, without_header_tags
from mesh.wire.produce_head import acks_of
from mesh.wire.reader import Cursor
from mesh.wire.trees import read_request, read_tree, write_tree
from mesh.wire.writer import encode_unsigned_varint
from tests.wire.entities import anatomy
from tests.wire.entities.anatomy import Part, Plain, Tagged, Tags, encoded, lengths, sections
from tests.wire.entities.messages import MESSAGES, Message
from tests.wire.fuzz import mutated
from tests.wire.kafka_reader import OF_ANOTHER_VERSION, KafkaRead, KafkaReader

REQUESTS: Final = [message for message in MESSAGES if message[2] is Direction.REQUEST]
RESPONSES: Final = [message for message in MESSAGES if message[2] is Direction.RESPONSE]
WITH_TAGS: Final = [message for message in MESSAGES if any(s.fields for s in sections(anatomy.whole(message)))]
SERVED: Final = {api_key: (versions.lowest, versions.highest) for api_key, versions in APIS.items()}
CLIENT_IDS: Final = (b"\xff\xff", b"\0\0", b"\0\1c", b"\0\3\xed\xa0\x80", b"\xff\x9c")
NO_TEXTS: Final = (
    b"\xed\xa0\x80",  # a surrogate
    b"\xed\xa0",
    b"\xed\xa0a",
    b"\xf0\x80\x80\x80",  # longer than it needs to be
    b"\xe0\x80\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",  # above the highest character
    b"\xf0\x9f\x98",
    b"\xf8\x88\x80\x80\x80",
    b"\xff",
    b"\xc3",
    b"\x80",
)
CHUNK: Final = 50
"""The bytes of an answer that arrive at once."""
BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Case:
    """A message to read. data: a request without its length, or the body of a response."""

    message: Message
    data: bytes

    def __str__(self) -> str:
        api_key, version, side = self.message
        return f"{api_key.name} v{version} {side.name}: {self.data.hex()}"


@dataclass(frozen=True, slots=True)
class Difference:
    """A message that Kafka and a reader of the mesh understand differently."""

    case: Case
    reader: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reader}: {self.detail}\n  {self.case}"


class Entities(Unchanged):
    """Notes the entities of a message."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def _note(self, *values: Any) -> Any:
        self.found.append(values)
        return values[-1]

    def address(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        self.found.append((node, host, port))
        return host, port

    def embedded(self, content: memoryview) -> Buffer:
        self.found.append(bytes(content))
        return content

    node = partition = leader_epoch = record_epoch = end_epoch = end_offset = producer = _note  # type: ignore[assignment]
    cluster_id = topic = topic_pattern = group = transactional_id = _note  # type: ignore[assignment]
    topic_id = transactional_id_pattern = coordinator_key = _note  # type: ignore[assignment]
    subscription = assignment = embedded  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class _Passed:
    """A message as a reader of the mesh passes it on. expected: the body that Kafka must read in it. may_hide: whether
    it may have bytes that Kafka does not know."""

    case: Case
    reader: str
    data: bytes
    expected: bytes
    may_hide: bool = False


# Cases


def cases(seed: int, count: int) -> Iterator[Case]:
    """Changed messages; the same seed makes the same ones."""
    random = Random(seed)
    for _ in range(count):
        yield case(random)


def case(random: Random) -> Case:
    message = random.choice(random.choice((REQUESTS, REQUESTS, RESPONSES, WITH_TAGS)))
    parts = anatomy.parts_of(message, random)
    for _ in range(random.randrange(4)):
        random.choice(CHANGES)(random, parts)
    body = encoded(parts)
    if random.random() < 0.3:
        body = mutated(random, body)
    if random.random() < 0.2:
        body += random.choice((b"\0", b"\0\0\0", b"\xff" * 9, body))
    return Case(message, header(random, message) + body if message[2] is Direction.REQUEST else body)


def header(random: Random, message: Message) -> bytes:
    api_key, version, _ = message
    start = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + random.choice(CLIENT_IDS)
    tags = Tags()
    while random.random() < 0.2:
        tags.fields.append(Tagged(random.randrange(4), [Plain(random.randbytes(random.randrange(3)))]))
    return start + encoded([tags]) if is_flexible(api_key, version) else start


def _size(random: Random, parts: list[Part]) -> None:
    for each in _some_tagged(random, parts):
        each.more = random.choice((-16, -2, -1, 1, 2, 16))


def _hide(random: Random, parts: list[Part]) -> None:
    """A value with the end of a message behind it, which the size includes."""
    for each in _some_tagged(random, parts):
        start = random.randrange(len(parts))
        each.content = [*each.content, Plain(encoded(parts[start : start + 5]) + encoded(parts[-1:]))]


def _order(random: Random, parts: list[Part]) -> None:
    for section in _some_section(random, parts):
        random.shuffle(section.fields)


def _repeat(random: Random, parts: list[Part]) -> None:
    for section in _some_section(random, parts):
        if section.fields:
            section.fields.insert(random.randrange(len(section.fields) + 1), random.choice(section.fields))


def _unknown(random: Random, parts: list[Part]) -> None:
    for section in _some_section(random, parts):
        tag = random.choice((2, 9, 127, 300, 2**32 - 1))
        section.fields.append(Tagged(tag, [Plain(random.randbytes(random.randrange(4)))]))


def _length(random: Random, parts: list[Part]) -> None:
    found = list(lengths(parts))
    if not found:
        return
    part = random.choice(found)
    size = len(part.data)
    if size in (2, 4) and part.data[:1] in (b"\0", b"\xff"):  # perhaps a varint of so many bytes, which is fine
        known = int.from_bytes(part.data, "big", signed=True)
        part.data = random.choice((-1, -2, known - 1, known + 1, 2**15 - 1)).to_bytes(size, "big", signed=True)
        return
    known = part.data[0]
    part.data = random.choice(
        (
            b"\0",
            encode_unsigned_varint(max(known - 1, 0)),
            encode_unsigned_varint(known + 1),
            b"\xff\xff\xff\xff\x0f",
            b"\xff\xff\xff\xff\x07",
            b"\x80\x80\x80\x80\x08",
            b"\x80\x80\x80\x80\x80\x01",
            bytes([known | 0x80]) + b"\0",
            bytes([known | 0x80]) + b"\x80\x80\x80\x70",
        )
    )


def _text(random: Random, parts: list[Part]) -> None:
    """Bytes that are not UTF-8."""
    texts = [part for part in parts if isinstance(part, Plain) and not part.is_length and len(part.data) > 4]
    if texts:
        part = random.choice(texts)
        bad = random.choice(NO_TEXTS)
        part.data = (bad + part.data)[: len(part.data)]


def _some_section(random: Random, parts: list[Part]) -> list[Tags]:
    found = list(sections(parts))
    with_fields = [each for each in found if each.fields]
    return [random.choice(with_fields if with_fields and random.random() < 0.8 else found)] if found else []


def _some_tagged(random: Random, parts: list[Part]) -> list[Tagged]:
    found = [each for section in sections(parts) for each in section.fields]
    return [random.choice(found)] if found else []


CHANGES: Final[Sequence[Callable[[Random, list[Part]], None]]] = (
    _size,
    _hide,
    _order,
    _repeat,
    _unknown,
    _length,
    _length,
    _text,
)


# Readers


class Differential:
    """Compares the readers of the mesh with Kafka's. outcomes: how many messages both read, the mesh refuses, or
    both refuse."""

    def __init__(self, kafka: KafkaReader) -> None:
        self._kafka = kafka
        self.outcomes: Counter[str] = Counter()
        self.differences: list[Difference] = []
        self._passed: list[_Passed] = []

    def compare(self, cases: Sequence[Case]) -> None:
        for case, read in zip(cases, self._kafka.read([(each.message, each.data) for each in cases]), strict=True):
            self._compare(case, read)
        passed, self._passed = self._passed, []
        again = self._kafka.read([(each.case.message, each.data) for each in passed])
        for each, read in zip(passed, again, strict=True):
            if read is None:
                self._differ(each.case, each.reader, f"Kafka refuses what the mesh passes on: {each.data.hex()}")
            elif read is OF_ANOTHER_VERSION or read.body != each.expected:
                self._differ(each.case, each.reader, f"the mesh passes on another message: {each.data.hex()}")
            elif read.is_lossy and not each.may_hide:
                self._differ(each.case, each.reader, f"the mesh passes on what it does not know: {each.data.hex()}")

    def _compare(self, case: Case, read: KafkaRead | None) -> None:
        if read is OF_ANOTHER_VERSION:
            self._compare_without_tag(case)
            return
        api_key, version, side = case.message
        is_request = side is Direction.REQUEST
        frame = memoryview(bytearray(len(case.data).to_bytes(4, "big") + case.data))
        body = self._attempt(lambda: body_of(api_key, version, frame) if is_request else 4)
        if body is not None and read is not None and body != 4 + read.body_at:
            self._differ(case, "body_of", f"the body begins at {body - 4}; for Kafka at {read.body_at}")
            return
        if is_request and api_key in APIS and version in APIS[api_key].all():
            self._compare_pool(case, read)
        if body is None:
            return
        if is_request:
            frame, body = without_header_tags(api_key, version, frame)
        self._compare_tree(case, read, frame, body)
        for named, programs in (("program", program), ("program with partitions", program_with_partitions)):
            self._compare_program(case, read, frame, body, named, programs(*case.message))
        if is_request and api_key is ApiKey.PRODUCE:
            self._compare_produce(case, read, frame, body)
        if not is_request and api_key is ApiKey.FETCH and version <= HIGHEST:
            self._compare_client(case, read)
        if not is_request and version in VERSIONS.get(api_key, ()) and read is not None:
            self._compare_walker(case, read)

    def _compare_without_tag(self, case: Case) -> None:
        """Checks that a request passes without a tag that only another version has. Kafka refuses it."""
        api_key, version, side = case.message
        self.outcomes["a tag of another version"] += 1
        if side is Direction.RESPONSE:
            return

        def passed() -> tuple[bytes, bytes, bytes]:
            frame = memoryview(bytearray(len(case.data).to_bytes(4, "big") + case.data))
            frame, body = without_header_tags(api_key, version, frame)
            tree, read = read_request(api_key, version, frame, body)
            pieces = program(*case.message).translate(frame, body, Unchanged())
            return write_tree(*case.message, tree), bytes(read[4:]), b"".join(pieces)[4:]

        found = self._attempt(passed)
        if found is not None:
            expected, *datas = found
            self._passed += [_Passed(case, "a tag of another version", data, expected) for data in datas]

    def _compare_tree(self, case: Case, read: KafkaRead | None, frame: memoryview, body: int) -> None:
        def written() -> bytes:
            return write_tree(*case.message, read_tree(*case.message, frame[body:]))

        found = self._attempt(written)
        self.outcomes[f"{_told(read is not None)} by Kafka, {_told(found is not None)} by the mesh"] += 1
        if found is not None and self._is_read(case, "tree", read) and found != read.body:  # type: ignore[union-attr]
            self._differ(case, "tree", f"the mesh reads {found.hex()}, Kafka {read.body.hex()}")  # type: ignore[union-attr]
        if found is not None and read is not None and case.message[2] is Direction.REQUEST:
            passed = self._attempt(lambda: bytes(read_request(*case.message[:2], frame, body)[1][4:]))
            self._passed.append(_Passed(case, "tree that passes", passed, read.body))

    def _compare_program(
        self, case: Case, read: KafkaRead | None, frame: memoryview, body: int, name: str, compiled: Any
    ) -> None:
        entities = Entities()
        pieces = self._attempt(lambda: compiled.translate(frame, body, entities))
        if pieces is None or not self._is_read(case, name, read):
            return
        assert read is not None
        expected = Entities()
        compiled.translate(memoryview(read.body), 0, expected)
        if entities.found != expected.found:
            self._differ(case, name, f"the mesh finds {entities.found}, Kafka {expected.found}")
        self._passed.append(_Passed(case, name, b"".join(pieces)[4:], read.body))

    def _compare_pool(self, case: Case, read: KafkaRead | None) -> None:
        api_key, version, _ = case.message

        def decoded() -> tuple[str | None, object]:
            (request,) = ServerConnection(SERVED).receive_data(len(case.data).to_bytes(4, "big") + case.data)
            return request.client_id, request.decode()

        found = self._attempt(decoded)
        if found is None or not self._is_read(case, "pool", read):
            return
        assert read is not None
        expected = decode_request(api_key, version, Cursor(read.body))
        if found[1] != expected:
            self._differ(case, "pool", f"the mesh reads {found[1]}, Kafka {expected}")

    def _compare_produce(self, case: Case, read: KafkaRead | None, frame: memoryview, body: int) -> None:
        version = case.message[1]
        acks = self._attempt(lambda: acks_of(version, frame))
        if read is None:
            return
        tree = read_tree(*case.message, read.body)
        if acks is not None and acks != tree["acks"]:
            self._differ(case, "acks", f"the mesh reads {acks}, Kafka {tree['acks']}")
        parts = self._attempt(lambda: parts_of(version, frame, body))
        partitions = [each for topic in tree["topic_data"] for each in topic["partition_data"]]
        names = [each["name"] for each in tree["topic_data"] if "name" in each]
        expected: list[Any] = [tree["acks"], tree["transactional_id"], names]
        if parts is not None:
            records = [bytes(frame[start:end]) for start, end in parts.records]
            if [parts.acks, parts.transactional_id, parts.topics, records] != [
                *expected,
                [each["records"] for each in partitions if each["records"]],
            ]:
                self._differ(case, "parts", f"the mesh reads {parts}, {records}, Kafka {tree}")
            if parts.is_exact:
                self._passed.append(_Passed(case, "parts", bytes(frame[4:]), read.body))
        one = one_partition(version, frame, len(frame))
        if isinstance(one, OnePartition):
            records = [bytes(frame[one.records_at : one.records_at + one.size])]
            topics = [] if one.topic is None else [one.topic]
            all_records = [each["records"] for each in partitions]
            if [one.acks, one.transactional_id, topics, records] != [*expected, all_records]:
                self._differ(case, "one partition", f"the mesh reads {one}, Kafka {tree}")

    def _compare_client(self, case: Case, read: KafkaRead | None) -> None:
        api_key, version, _ = case.message

        def decoded(body: bytes) -> Any:
            request = ClientRequest(api_key, version, is_flexible(api_key, version), ())
            return decode_fetch_answer(ClientResponse(request, memoryview(body), 0))

        found = self._attempt(lambda: decoded(case.data))
        expected = None if read is None else self._attempt(lambda: decoded(read.body))
        if found is not None and expected is not None and found != expected:
            self._differ(case, "client", f"the mesh reads {found}, Kafka {expected}")

    def _compare_walker(self, case: Case, read: KafkaRead) -> None:
        header = bytes(5)

        def walked() -> bytes:
            frame = header + case.data
            walker = AnswerWalker(case.message[0], case.message[1], len(frame))
            chunks = (memoryview(bytearray(frame[at : at + CHUNK])) for at in range(0, len(frame), CHUNK))
            passed = b"".join([bytes(piece) for chunk in chunks for piece in walker.feed(chunk)])
            return passed if walker.is_done else b""

        found = self._attempt(walked)
        if found:
            tree = {**read_tree(*case.message, read.body), "node_endpoints": []}
            expected = write_tree(*case.message, tree)
            self._passed.append(_Passed(case, "walker", found[len(header) :], expected, may_hide=True))

    def _is_read(self, case: Case, reader: str, read: KafkaRead | None) -> bool:
        if read is None and case.message[2] is Direction.REQUEST:  # clients judge answers themselves
            self._differ(case, reader, "Kafka refuses what the mesh reads")
        return read is not None

    def _differ(self, case: Case, reader: str, detail: str) -> None:
        self.differences.append(Difference(case, reader, detail))

    @staticmethod
    def _attempt(read: Callable[[], Any]) -> Any:
        """The result of a reader; None if it refuses. A text may be too long with its replacement characters."""
        try:
            return read()
        except (ProtocolError, ValueError):
            return None


def _told(is_read: bool) -> str:
    return "read" if is_read else "refused"


def run(kafka: KafkaReader, seed: int, count: int) -> Differential:
    """Compares this number of messages."""
    compared = Differential(kafka)
    batch: list[Case] = []
    for each in cases(seed, count):
        batch.append(each)
        if len(batch) == BATCH:
            compared.compare(batch)
            batch = []
    compared.compare(batch)
    return compared


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.wire.differential", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--messages", type=int, default=100_000)
    arguments = parser.parse_args()
    kafka = KafkaReader()
    compared = run(kafka, arguments.seed, arguments.messages)
    kafka.close()
    for outcome, number in compared.outcomes.most_common():
        print(f"{number:>9} {outcome}")
    for difference in compared.differences[:40]:
        print(difference, file=sys.stderr)
    print(Counter(each.reader for each in compared.differences))
    return int(bool(compared.differences))


if __name__ == "__main__":
    sys.exit(main())
