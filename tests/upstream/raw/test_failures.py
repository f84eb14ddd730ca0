"""Unforeseen exceptions in an undecoded engine: the engine fails, so that another one takes its place."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

from mesh.records.spans import ClusterName
from mesh.tasks import OwnedTask, TaskName, finite, reporting
from mesh.upstream.engine import EngineEvent, EngineFailed, Lost
from mesh.upstream.librdkafka.engine import LibrdkafkaEngine
from mesh.upstream.raw.engine import RawEngine
from tests.fake_time import in_fake_time
from tests.planted import PLANTED
from tests.test_tasks import Reports, raising

LOST = Lost(())


def engine(deliver: Mock) -> RawEngine:
    made = RawEngine.__new__(RawEngine)
    made._loop, made._deliver, made._closed = asyncio.get_running_loop(), deliver, False
    made._cluster = Mock()
    made._cluster.name = ClusterName("eu")
    made._rereading, made._fetching = Mock(run=asyncio.Event().wait), Mock(run=lambda _: asyncio.Event().wait())
    made._is_outdated = lambda event: False  # type: ignore[method-assign]
    return made


def failures(deliver: Mock) -> list[str]:
    events: list[EngineEvent] = [call.args[0] for call in deliver.call_args_list]
    return [event.reason for event in events if isinstance(event, EngineFailed)]


@in_fake_time
async def test_a_task_of_an_engine() -> None:
    for problem in PLANTED:
        for part in ("rereading", "fetching", "resets"):
            deliver = Mock()
            made = engine(deliver)
            match part:
                case "rereading":
                    made._rereading.run = raising(problem)  # type: ignore[method-assign,assignment]
                case "fetching":
                    made._fetching.run = lambda _, problem=problem: raising(problem)()  # type: ignore[method-assign,misc,assignment]
                case _:

                    async def fetch(tasks: asyncio.TaskGroup, problem: BaseException = problem) -> None:
                        tasks.create_task(finite(raising(problem)))
                        await asyncio.Event().wait()

                    made._fetching.run = fetch  # type: ignore[method-assign]
            await asyncio.wait_for(made._run(), 1)
            assert len(failures(deliver)) == 1, (part, problem)


@in_fake_time
async def test_an_event_that_is_not_taken() -> None:
    """The event may have said which partitions the engine has."""
    for problem in PLANTED:
        deliver, reports = Mock(side_effect=[problem, None]), Reports()
        with reporting(reports):
            engine(deliver)._report(LOST)
        assert [type(call.args[0]) for call in deliver.call_args_list] == [Lost, EngineFailed]
        assert failures(deliver) == [repr(problem)]
        assert not reports.failures
        by_librdkafka = LibrdkafkaEngine.__new__(LibrdkafkaEngine)
        by_librdkafka._deliver = deliver = Mock()
        by_librdkafka._not_taken(problem)
        assert failures(deliver) == [repr(problem)]


@in_fake_time
async def test_a_failure_that_is_not_taken_is_reported() -> None:
    reports = Reports()
    with reporting(reports):
        engine(Mock(side_effect=KeyError("relay")))._report(LOST)
    assert [task for task, _, _ in reports.failures] == [OwnedTask(TaskName.ENGINE, cluster="eu")]
