"""Reading over our own connections: the batches that arrive, the requests, and faults of brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest

from mesh.records.spans import ClusterName, Gap, Span, TopicName, UpstreamPartition
from mesh.upstream.engine import (
    EndReached,
    EngineEvent,
    EventBatch,
    PositionReset,
    ReadingDown,
    ReadingUp,
    Received,
    Reread,
    RereadToken,
    Truncated,
)
from mesh.upstream.links import nodes as nodes_module
from mesh.upstream.links.buffers import ReceiveBuffers
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.nodes import Nodes
from mesh.upstream.problems import UpstreamProblem
from mesh.upstream.raw import fetching as fetching_module
from mesh.upstream.raw import health as health_module
from mesh.upstream.raw.fetching import Fetching
from mesh.upstream.raw.lanes import MANY, PARKED_MS
from mesh.upstream.raw.reading import Reading
from mesh.upstream.raw.rereading import Rereading
from mesh.wire.apis import ApiKey
from mesh.wire.client.connection import ClientResponse
from mesh.wire.client.fetch import FetchAnswer, Fetched, decode_fetch_answer
from mesh.wire.errors import ErrorCode
from tests.upstream.harness import one_by_one, run
from tests.upstream.raw.fake_broker import SERVED, TOPIC, FakeCluster, fake_cluster

EU = ClusterName("eu")
TIMEOUT = 20.0


def source(partition: int) -> UpstreamPartition:
    return UpstreamPartition(EU, TopicName(TOPIC), partition)


class Reader:
    def __init__(self, cluster: FakeCluster, access: ConnectionSettings) -> None:
        self.told: list[EngineEvent] = []
        self.events: list[EngineEvent] = []
        """Events that were reported together, one by one."""
        self.delegated: list[Reading] = []
        self._told = asyncio.Event()
        cluster.asked = self._told.set
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())
        self.readings = {source(number): Reading(source(number), 0) for number in range(len(cluster.logs))}
        buffers = ReceiveBuffers(64 << 20)
        self.cluster = Nodes(EU, bootstrap, access, buffers.allocate)
        loop = asyncio.get_running_loop()
        self.fetching = Fetching(self.cluster, self.readings, True, 1 << 20, buffers, self._tell, self._delegate, loop)
        self.rereading = Rereading(self.cluster, self.readings, True, self._tell, self.fetching.lost)

    def _tell(self, event: EngineEvent) -> None:
        self.told.append(event)
        self.events += one_by_one(event)
        self._told.set()

    def _delegate(self, reading: Reading) -> None:
        reading.delegated = True
        self.delegated.append(reading)
        self._told.set()

    def offsets(self, partition: int) -> list[int]:
        return [
            offset
            for event in self.events
            if isinstance(event, Received) and event.partition == source(partition)
            for batch in event.batches
            for offset in range(batch.first, batch.last + 1)
        ]

    async def until_read(self, partition: int, count: int) -> None:
        await self.until(lambda: self.offsets(partition) == list(range(count)))

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not condition():
                self._told.clear()
                await self._told.wait()


@asynccontextmanager
async def reading(cluster: FakeCluster, access: ConnectionSettings | None = None) -> AsyncIterator[Reader]:
    reader = Reader(cluster, access or ConnectionSettings(request_timeout=2.0, backoff=0.01, most_backoff=0.05))
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(reader.fetching.run(tasks)), tasks.create_task(reader.rereading.run())]
        reader.fetching.look_for_leaders()
        try:
            yield reader
        finally:
            reader.cluster.close()
            for task in [*running, *tasks._tasks]:
                task.cancel()


def test_all_partitions_are_read_to_their_ends() -> None:
    async def test() -> None:
        async with fake_cluster(3) as cluster:
            for number in range(3):
                await cluster.append(number, 5)
                await cluster.append(number, 2)
            async with reading(cluster) as reader:
                await reader.until(lambda: all(reader.offsets(number) == list(range(7)) for number in range(3)))
                await reader.until(lambda: len([e for e in reader.events if isinstance(e, EndReached)]) == 3)
                await cluster.append(1, 3)
                await reader.until(lambda: reader.offsets(1) == list(range(10)))

    run(test)


def test_what_an_answer_brings_of_several_partitions_is_told_together() -> None:
    async def test() -> None:
        async with fake_cluster(3) as cluster:
            for number in range(3):
                await cluster.append(number, 5)
            async with reading(cluster) as reader:
                await reader.until(lambda: all(reader.offsets(number) == list(range(5)) for number in range(3)))
                together = [event.events for event in reader.told if isinstance(event, EventBatch)]
                assert len(together) < 3
                assert max(len([each for each in events if isinstance(each, Received)]) for events in together) >= 2
                assert not any(isinstance(event, Received | EndReached) for event in reader.told)

    run(test)


def test_what_becomes_wanted_is_asked_for_while_others_are_parked() -> None:
    async def test() -> None:
        async with fake_cluster(2) as cluster, reading(cluster) as reader:
            paused = reader.readings[source(1)]
            paused.paused = True
            await cluster.append(0, 1)
            await reader.until(lambda: reader.offsets(0) == [0])
            await reader.until(lambda: (1, {0: 1}, PARKED_MS) in cluster.fetched)
            paused.paused = False
            reader.fetching.wake()
            await reader.until(lambda: EndReached(source(1), 0, Gap.EMPTY) in reader.events)
            assert all(not {0, 1} <= asked.keys() for _, asked, _ in cluster.fetched)

    run(test)


def test_of_many_partitions_that_hold_more_each_lane_asks_for_half_and_one_parks_with_all() -> None:
    async def test() -> None:
        async with fake_cluster(MANY) as cluster:
            for number in range(MANY):
                await cluster.append(number, 3)
            async with reading(cluster) as reader:
                await reader.until(lambda: all(reader.offsets(number) == [0, 1, 2] for number in range(MANY)))
                at_first = [asked.keys() for _, asked, _ in cluster.fetched[:2]]
                assert [len(asked) for asked in at_first] == [MANY // 2, MANY // 2]
                assert at_first[0] | at_first[1] == set(range(MANY))
                await reader.until(lambda: (1, dict.fromkeys(range(MANY), 3), PARKED_MS) in cluster.fetched)
                # From then on the other lane asks for nothing.
                count = len(cluster.fetched)
                await cluster.append(5, 1)
                await reader.until(lambda: reader.offsets(5) == [0, 1, 2, 3])
                await reader.until(lambda: len(cluster.fetched) > count)
                assert {wait for _, _, wait in cluster.fetched[count:]} == {PARKED_MS}

    run(test)


def test_nothing_is_asked_for_while_nothing_is_consumed() -> None:
    async def test() -> None:
        async with fake_cluster(1) as cluster, reading(cluster) as reader:
            reader.fetching.set_consuming(False)
            await cluster.append(0, 1)
            reader.rereading.read(RereadToken(1), source(0), Span(0, 0))  # the leader must be known for it
            await reader.until(lambda: any(isinstance(event, Reread) and event.complete for event in reader.events))
            assert cluster.fetched == [(1, {0: 0}, 10)]
            reader.fetching.set_consuming(True)
            await reader.until(lambda: reader.offsets(0) == [0])

    run(test)


def test_a_new_leader_is_found() -> None:
    async def test() -> None:
        async with fake_cluster(1, nodes=(1, 2)) as cluster, reading(cluster) as reader:
            await cluster.append(0, 2)
            await reader.until(lambda: reader.offsets(0) == [0, 1])
            cluster.leaders, cluster.epoch = [2], 6
            await cluster.append(0, 1)
            await reader.until(lambda: reader.offsets(0) == [0, 1, 2])
            assert cluster.fetched[-1][0] == 2

    run(test)


def test_a_broker_that_hangs_is_left_for_the_new_leader() -> None:
    async def test() -> None:
        async with fake_cluster(1, nodes=(1, 2)) as cluster:
            access = ConnectionSettings(request_timeout=0.3, setup_timeout=0.3, backoff=0.01, most_backoff=0.05)
            async with reading(cluster, access) as reader:
                await cluster.append(0, 1)
                await reader.until(lambda: reader.offsets(0) == [0])
                cluster.silent, cluster.leaders, cluster.epoch = {1}, [2], 6
                await cluster.append(0, 1)
                await reader.until(lambda: reader.offsets(0) == [0, 1])

    run(test)


def test_connections_that_break_are_made_again() -> None:
    async def test() -> None:
        async with fake_cluster(1) as cluster, reading(cluster) as reader:
            for number in range(3):
                await cluster.append(0, 1)
                await reader.until_read(0, number + 1)
                for writer in list(cluster.connections):
                    writer.transport.abort()

    run(test)


def test_errors_of_a_leader_that_is_not_ready_are_waited_out() -> None:
    async def test() -> None:
        async with fake_cluster(1) as cluster:
            await cluster.append(0, 3)
            cluster.errors[0] = [
                ErrorCode.OFFSET_NOT_AVAILABLE,
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                ErrorCode.FENCED_LEADER_EPOCH,
                ErrorCode.KAFKA_STORAGE_ERROR,
                ErrorCode.UNKNOWN_SERVER_ERROR,
            ]
            async with reading(cluster) as reader:
                await reader.until(lambda: reader.offsets(0) == [0, 1, 2])

    run(test)


def test_what_retention_has_deleted_is_passed_over() -> None:
    async def test() -> None:
        async with fake_cluster(1) as cluster:
            await cluster.append(0, 3)
            await cluster.append(0, 3)
            cluster.begins[0] = 3
            async with reading(cluster) as reader:
                await reader.until(lambda: reader.offsets(0) == [3, 4, 5])
                assert reader.events[0] == EndReached(source(0), 3, Gap.DELETED)
                assert not any(isinstance(event, PositionReset) for event in reader.events)

    run(test)


def test_a_log_that_was_cut_off_is_cut_and_goes_on_at_its_end() -> None:
    """It is the same topic, so the records below the end are still there."""

    async def test() -> None:
        async with fake_cluster(1) as cluster:
            await cluster.append(0, 3)
            async with reading(cluster) as reader:
                reader.readings[source(0)].position = 9
                await reader.until(lambda: reader.events)
                assert reader.events[0] == Truncated(source(0), 3)
                await cluster.append(0, 2)
                await reader.until(lambda: reader.offsets(0) == [3, 4])

    run(test)


def test_a_log_that_has_grown_again_is_cut_where_its_epoch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def end_of_epoch(_: object, node: object, current: int, epoch: int) -> tuple[int, int]:
        assert (current, epoch) == (5, 4)
        return 0, 1

    async def test() -> None:
        async with fake_cluster(1) as cluster:
            for _ in range(3):
                await cluster.append(0, 1)
            monkeypatch.setattr("mesh.upstream.raw.resets.end_of_epoch", end_of_epoch)
            async with reading(cluster) as reader:
                reader.readings[source(0)].position = 9
                reader.readings[source(0)].log_epoch = 4
                await reader.until(lambda: reader.offsets(0) == [1, 2])
                assert reader.events[0] == Truncated(source(0), 1)

    run(test)


def test_a_log_that_was_cut_off_starts_again_where_topics_have_no_ids() -> None:
    """It may be another topic, and lost records do not come again."""

    async def test() -> None:
        async with fake_cluster(1) as cluster:
            cluster.topic_id = UUID(int=0)
            await cluster.append(0, 3)
            async with reading(cluster) as reader:
                noticed: list[UpstreamPartition] = []
                reader.fetching.recreated = noticed.append
                reader.readings[source(0)].position = 9
                await reader.until(lambda: reader.offsets(0) == [0, 1, 2])
                assert isinstance(reader.events[0], PositionReset)
                assert (reader.events[0].start, noticed) == (0, [source(0)])

    run(test)


@pytest.mark.parametrize("highest", [12, 17])
def test_a_shorter_log_of_another_topic_starts_again(monkeypatch: pytest.MonkeyPatch, highest: int) -> None:
    """A broker answers Fetches by name from any topic of that name, so the engine asks the leader for its id."""
    monkeypatch.setitem(SERVED, ApiKey.FETCH, (4, highest))

    async def test() -> None:
        async with fake_cluster(1) as cluster, reading(cluster) as reader:
            await cluster.append(0, 5)
            await reader.until_read(0, 5)
            cluster.topic_id = UUID(int=2)
            cluster.logs, cluster.ends = [[]], [0]
            await cluster.append(0, 2)
            await reader.until(lambda: reader.offsets(0) == [0, 1, 2, 3, 4, 0, 1])
            assert PositionReset(source(0), 0, "the topic was deleted and created again") in reader.events
            assert not any(isinstance(event, Truncated) for event in reader.events)

    run(test)


def test_a_topic_that_was_created_again_is_noticed_by_its_id() -> None:
    async def test() -> None:
        async with fake_cluster(1) as cluster:
            noticed: list[UpstreamPartition] = []
            async with reading(cluster) as reader:
                reader.fetching.recreated = noticed.append
                await cluster.append(0, 3)
                await reader.until(lambda: reader.offsets(0) == [0, 1, 2])
                cluster.topic_id = UUID(int=2)
                cluster.logs, cluster.ends = [[]], [0]
                await cluster.append(0, 5)  # longer than the read part: only the id shows it
                await reader.until(lambda: reader.offsets(0) == [0, 1, 2, 0, 1, 2, 3, 4])
                assert PositionReset(source(0), 0, "the topic was deleted and created again") in reader.events
                assert noticed == [source(0)]

    run(test)


def test_what_starts_again_while_it_is_revoked_is_read_when_it_comes_back() -> None:
    async def test() -> None:
        async with fake_cluster(1) as cluster, reading(cluster) as reader:
            await cluster.append(0, 3)
            await reader.until_read(0, 3)
            reader.readings[source(0)].revoked = True
            cluster.topic_id = UUID(int=2)
            cluster.logs, cluster.ends = [[]], [0]
            await cluster.append(0, 2)
            reader.fetching.lost(reader.readings[source(0)])
            await reader.until(lambda: any(isinstance(event, PositionReset) for event in reader.events))
            anew = reader.readings[source(0)]
            assert not anew.is_asked_for
            anew.revoked = False
            reader.fetching.wake()
            await reader.until(lambda: reader.offsets(0) == [0, 1, 2, 0, 1])

    run(test)


def test_throttling_is_kept_to() -> None:
    async def test() -> None:
        async with fake_cluster(1) as cluster:
            cluster.throttle_ms = 100
            await cluster.append(0, 1)
            async with reading(cluster) as reader:
                began = asyncio.get_running_loop().time()
                for number in range(3):
                    await reader.until_read(0, number + 1)
                    await cluster.append(0, 1)
                await reader.until(lambda: len(reader.offsets(0)) == 4)
                assert asyncio.get_running_loop().time() - began >= 0.1

    run(test)


def test_old_record_formats_are_left_to_others() -> None:
    async def test() -> None:
        async with fake_cluster(2) as cluster:
            for number in (0, 1):
                await cluster.append(number, 1)
                await cluster.append(number, 1)
            cluster.logs[0][1][1][16] = 1
            async with reading(cluster) as reader:
                await reader.until(lambda: reader.delegated and reader.offsets(1) == [0, 1])
                assert [(each.source, each.position) for each in reader.delegated] == [(source(0), 1)]
                assert reader.offsets(0) == [0]

    run(test)


def test_a_span_is_read_again() -> None:
    async def test() -> None:
        async with fake_cluster(1) as cluster:
            for _ in range(4):
                await cluster.append(0, 3)
            async with reading(cluster) as reader:
                await reader.until(lambda: len(reader.offsets(0)) == 12)
                for span, expected in ((Span(4, 7), list(range(3, 9))), (Span(9, 30), [9, 10, 11])):
                    reader.events.clear()
                    # The fake answers from whole batches on, so the first batch is requested by its own offset.
                    reader.rereading.read(RereadToken(1), source(0), Span(expected[0], span.last))
                    await reader.until(lambda: any(isinstance(e, Reread) and e.complete for e in reader.events))
                    again = [e for e in reader.events if isinstance(e, Reread)]
                    assert again[-1].error == ""
                    found = [n for e in again for b in e.batches for n in range(b.first, b.last + 1)]
                    assert found == expected

    run(test)


def twist(monkeypatch: pytest.MonkeyPatch, change: Callable[[Fetched], Fetched]) -> None:
    """Changes partitions' parts of answers."""

    def twisted(response: ClientResponse) -> FetchAnswer:
        answer = decode_fetch_answer(response)
        return replace(answer, partitions=tuple(map(change, answer.partitions)))

    monkeypatch.setattr(fetching_module, "decode_fetch_answer", twisted)


def test_a_leader_that_hangs_is_left_before_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have a minute to answer; the others know sooner that it no longer leads."""
    monkeypatch.setattr(fetching_module, "OVERDUE", 0.05)
    monkeypatch.setattr(nodes_module, "NEXT_AFTER", 0.05)

    async def test() -> None:
        async with fake_cluster(2, nodes=(1, 2, 3)) as cluster:
            access = ConnectionSettings(request_timeout=60.0, setup_timeout=60.0, backoff=0.01, most_backoff=0.05)
            async with reading(cluster, access) as reader:
                await cluster.append(0, 1)
                await reader.until_read(0, 1)
                cluster.silent = {1}
                cluster.leaders, cluster.epoch = [2, 3], 6
                await cluster.append(0, 1)
                await cluster.append(1, 1)
                await reader.until_read(0, 2)
                await reader.until_read(1, 1)

    run(test)


def test_the_answer_of_one_that_hung_is_not_taken_when_another_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching_module, "OVERDUE", 0.0)

    async def test() -> None:
        async with fake_cluster(1, nodes=(1, 2)) as cluster, reading(cluster) as reader:
            await reader.until(lambda: EndReached(source(0), 0, Gap.EMPTY) in reader.events)
            # Parked at 1, whose answer also brings what 2 brings.
            cluster.leaders, cluster.epoch = [2], 6
            await reader.until(lambda: (2, {0: 0}, PARKED_MS) in cluster.fetched)
            await cluster.append(0, 3)
            await reader.until_read(0, 3)
            await cluster.append(0, 1)
            await reader.until_read(0, 4)

    run(test)


def test_the_leader_that_an_answer_names_is_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    twist(monkeypatch, lambda part: replace(part, leader=(2, 6) if part.error_code else None))

    async def test() -> None:
        async with fake_cluster(1, nodes=(1, 2)) as cluster, reading(cluster) as reader:
            await cluster.append(0, 1)
            await reader.until_read(0, 1)
            described = len(cluster.described)
            cluster.leaders, cluster.epoch = [2], 6
            await cluster.append(0, 1)
            await reader.until_read(0, 2)
            assert len(cluster.described) == described

    run(test)


def test_a_log_that_was_truncated_is_read_from_where_it_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with fake_cluster(1) as cluster, reading(cluster) as reader:
            anew: list[UpstreamPartition] = []
            reader.fetching.recreated = anew.append
            for _ in range(4):
                await cluster.append(0, 1)
            await reader.until_read(0, 4)
            assert reader.readings[source(0)].last_epoch >= 0
            parts = [2]
            twist(monkeypatch, lambda part: replace(part, diverging=parts.pop()) if parts else part)
            await reader.until(lambda: reader.offsets(0) == [0, 1, 2, 3, 2, 3])
            assert [event for event in reader.events if isinstance(event, PositionReset | Truncated)] == [
                Truncated(source(0), 2)
            ]
            assert anew == [], "a topic that is made anew at that time is not taken for this"

    run(test)


@pytest.mark.parametrize(
    ("ends", "told", "first"),
    [
        ([(0, 3)], [Truncated(source(0), 3)], 2),
        ([(0, -1)], [], 2),
        ([(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (0, 4)], [Truncated(source(0), 4)], 2),
        ([(ErrorCode.UNKNOWN_SERVER_ERROR, -1)], [], 2),
        ([(0, 1)], [Truncated(source(0), 1)], 1),
    ],
    ids=["parts", "unknown", "another leader", "refused", "below the position"],
)
def test_it_is_asked_where_the_log_parts_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
    ends: list[tuple[int, int]],
    told: list[EngineEvent],
    first: int,
) -> None:
    """The group has committed 2, and acknowledged more records above it, up to epoch 4."""
    asked: list[tuple[int, int]] = []

    async def test() -> None:
        async with fake_cluster(1) as cluster:
            for _ in range(4):
                await cluster.append(0, 1)

            async def end_of_epoch(_: object, node: object, current: int, epoch: int) -> tuple[int, int]:
                assert not cluster.fetched, "nothing is read before"
                asked.append((current, epoch))
                return ends[len(asked) - 1]

            monkeypatch.setattr("mesh.upstream.raw.resets.end_of_epoch", end_of_epoch)
            async with reading(cluster) as reader:
                reader.readings[source(0)] = Reading(source(0), 2, log_epoch=4, unchecked=True)
                reader.fetching.look_for_leaders()
                await reader.until(lambda: reader.offsets(0) == list(range(first, 4)))
                assert asked == [(5, 4)] * len(ends)
                assert [event for event in reader.events if isinstance(event, PositionReset | Truncated)] == told
                assert reader.events.index(told[0]) == 0 if told else True

    run(test)


def test_a_partition_that_is_revoked_meanwhile_is_asked_again_when_it_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with fake_cluster(1) as cluster, reading(cluster) as reader:
            asked = []

            async def end_of_epoch(*_: object) -> tuple[int, int]:
                asked.append(reader.readings[source(0)])
                asked[0].revoked = True
                reader._told.set()
                return 0, 3

            monkeypatch.setattr("mesh.upstream.raw.resets.end_of_epoch", end_of_epoch)
            for _ in range(2):
                reader.readings[source(0)] = Reading(source(0), 0, log_epoch=4, unchecked=True)
                reader.fetching.look_for_leaders()
                await reader.until(lambda: asked and asked[-1] is reader.readings[source(0)])
            await reader.until(lambda: Truncated(source(0), 3) in reader.events)
            assert (asked[0].unchecked, asked[1].unchecked) == (True, False)

    run(test)


def test_an_epoch_that_the_leader_does_not_know_is_not_insisted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers that the offset is out of range, although it is not."""

    async def test() -> None:
        async with fake_cluster(1) as cluster, reading(cluster) as reader:
            await cluster.append(0, 2)
            await reader.until_read(0, 2)
            cluster.errors[0] = [ErrorCode.OFFSET_OUT_OF_RANGE]
            await cluster.append(0, 1)
            await reader.until_read(0, 3)
            assert not any(isinstance(event, PositionReset) for event in reader.events)

    run(test)


def test_a_resting_partition_is_woken_when_the_rest_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again: uvloop's timers are due at sums that may differ in their last bit, or be equal."""
    monkeypatch.setattr("mesh.upstream.raw.resets.RETRY_DELAY", 0.01)

    async def test() -> None:
        async with fake_cluster(1) as cluster, reading(cluster) as reader:
            for count in range(1, 41):
                cluster.errors[0] = [ErrorCode.OFFSET_OUT_OF_RANGE]
                await cluster.append(0, 1)
                await reader.until_read(0, count)

    run(test)


def test_a_preferred_replica_is_read_until_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with fake_cluster(1, nodes=(1, 2)) as cluster, reading(cluster) as reader:
            preferred = [2]
            twist(monkeypatch, lambda part: replace(part, preferred_replica=preferred.pop()) if preferred else part)
            await reader.until(lambda: 2 in [node for node, _, _ in cluster.fetched])
            # 2 says that it does not lead, so the leader is looked up again.
            await cluster.append(0, 2)
            await reader.until_read(0, 2)
            assert cluster.fetched[-1][0] == 1

    run(test)


def test_what_may_not_be_read_is_told_and_when_that_is_over() -> None:
    async def test() -> None:
        async with fake_cluster(2) as cluster:
            cluster.errors[0] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
            async with reading(cluster) as reader:
                await cluster.append(1, 1)
                await reader.until_read(1, 1)
                await reader.until(lambda: any(isinstance(event, ReadingDown) for event in reader.events))
                (down,) = [event for event in reader.events if isinstance(event, ReadingDown)]
                assert down.problem is UpstreamProblem.NOT_AUTHORIZED
                assert "TOPIC_AUTHORIZATION_FAILED" in down.reason
                await reader.until(lambda: ReadingUp() in reader.events)

    run(test)


def test_brokers_that_are_down_are_told_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "PATIENCE", 0.0)

    async def test() -> None:
        async with fake_cluster(1) as cluster:
            access = ConnectionSettings(request_timeout=0.2, setup_timeout=0.2, backoff=0.01, most_backoff=0.05)
            async with reading(cluster, access) as reader:
                await reader.until(lambda: EndReached(source(0), 0, Gap.EMPTY) in reader.events)
                cluster.silent = {1}
                await reader.until(lambda: any(isinstance(event, ReadingDown) for event in reader.events))
                cluster.silent = set()
                await reader.until(lambda: ReadingUp() in reader.events)
                await cluster.append(0, 1)
                await reader.until_read(0, 1)

    run(test)


def test_a_broker_before_0_11_is_left_to_librdkafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching_module, "version_for", lambda served, has_ids: None)

    async def test() -> None:
        async with fake_cluster(1) as cluster, reading(cluster) as reader:
            await reader.until(lambda: reader.delegated)
            assert cluster.fetched == []

    run(test)


@pytest.mark.parametrize("highest", [4, 6, 8, 10, 11, 12, 15])
def test_every_version_of_fetch(monkeypatch: pytest.MonkeyPatch, highest: int) -> None:
    monkeypatch.setitem(SERVED, ApiKey.FETCH, (4, highest))

    async def test() -> None:
        async with fake_cluster(2) as cluster:
            await cluster.append(0, 2)
            async with reading(cluster) as reader:
                await reader.until_read(0, 2)
                await cluster.append(1, 3)
                await reader.until_read(1, 3)
                assert {version for version in cluster.versions} == {highest}

    run(test)


def test_a_span_that_nobody_leads_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of a broker with leaders, nor of another one that hangs."""
    monkeypatch.setattr("mesh.upstream.raw.rereading.GIVE_UP", 2.0)

    async def test() -> None:
        async with fake_cluster(3, (1, 2)) as cluster, reading(cluster) as reader:
            for partition in range(3):
                await cluster.append(partition, 3)
                await reader.until_read(partition, 3)
            cluster.leaders[0] = reader.readings[source(0)].leader = 9
            reader.readings[source(1)].leader = 2
            cluster.silent = {2}
            for partition in range(3):
                reader.rereading.read(RereadToken(partition), source(partition), Span(0, 2))

            def complete() -> list[tuple[int, str]]:
                rereads = [event for event in reader.events if isinstance(event, Reread)]
                return [(each.token, each.error) for each in rereads if each.complete]

            await reader.until(complete)
            assert complete() == [(2, "")]
            await reader.until(lambda: len(complete()) == 3)
            assert all(error for token, error in complete() if token != 2)

    run(test)
