"""The raw engine as a member of a group: librdkafka joins and commits, and not one record comes through it."""

from __future__ import annotations

import pytest

from mesh.records.spans import CommitPosition
from mesh.upstream.engine import EndReached, Received, Revoked
from tests.upstream.harness import engine, new_name, produce, run, source


def test_records_commits_and_going_on(mock_cluster: str) -> None:
    topic, group = new_name("topic"), new_name("group")
    produce(mock_cluster, topic, 50)

    async def test() -> None:
        async with engine(mock_cluster, group, topic, reads_with="raw") as running:
            await running.ends(4)
            assert [record.offset for record in running.records(topic)] == list(range(50))
            # What librdkafka decodes comes in bytes of its own.
            assert all(isinstance(batch.data, memoryview) for event in running.all(Received) for batch in event.batches)
            assert await running.commit({source(topic): CommitPosition(20)}) == {source(topic): 0}
        async with engine(mock_cluster, group, topic, reads_with="raw") as running:
            assert (await running.assigned())[0].start == 20
            await running.ends(4)
            assert next(batch.first for event in running.all(Received) for batch in event.batches) == 20
            assert [event.offset for event in running.all(EndReached) if event.partition == source(topic)] == [50]

    run(test)


@pytest.mark.long
def test_a_rebalance_goes_on_where_it_was_read_to(mock_cluster: str) -> None:
    topic, group = new_name("topic"), new_name("group")
    produce(mock_cluster, topic, 50)

    async def test() -> None:
        async with engine(mock_cluster, group, topic, reads_with="raw") as running:
            await running.ends(4)
            await running.commit({source(topic): CommitPosition(20)})
            running.events.clear()
            async with engine(mock_cluster, group, topic, reads_with="raw"):
                await running.next(Revoked)
                again = await running.assigned()
                assert all(each.resumed for each in again.values())
                assert 0 not in again or again[0].start == 50

    run(test)
