"""Wrong credentials, an untrusted certificate, groups without authorization, and two processes with one id."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from mesh.upstream.engine import EngineName, GroupDown, SourceDown, Unopened
from mesh.upstream.librdkafka.message_runs import offset_of
from mesh.upstream.problems import UpstreamProblem
from tests.faults.bed import Bed, Stopwatch
from tests.faults.clusters import USER, SecuredCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually
from tests.upstream.harness import engine, new_name, produce, run, source

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.xdist_group("secured")]
BOTH = pytest.mark.parametrize("reads_with", ["raw", "librdkafka"])
TOLD, FLOWS = "until it is told", "until records flow again"


def cluster_of(bed: Bed) -> SecuredCluster:
    assert isinstance(bed.us, SecuredCluster)
    return bed.us


def test_wrong_password(bed_with_security: Bed) -> None:
    bed, watch, cluster = bed_with_security, Stopwatch("wrong password"), cluster_of(bed_with_security)
    cluster.allow(USER, bed.bench.group, bed.bench.topic)
    bed.bench.start_mesh(upstream={"us": cluster.sasl("right")})
    bed.members()
    bed.flows("us")
    cluster.stop()
    cluster.configure(cluster.with_password("another"))
    cluster.restart()
    try:
        watch.note(TOLD, bed.until_told(UpstreamProblem.CREDENTIALS))
        assert "right" not in str(bed.standing())
        bed.flows("eu")
    finally:
        cluster.stop()
        cluster.configure({})
        cluster.restart()
    with watch.measure(FLOWS):
        bed.flows("us")
    bed.until_over()
    assert bed.lines(UpstreamProblem.CREDENTIALS).count("upstream credentials refused") == 1
    bed.assert_nothing_lost(may_repeat=True)


def test_wrong_certificate(bed_with_security: Bed) -> None:
    bed, watch, cluster = bed_with_security, Stopwatch("certificate that is not trusted"), cluster_of(bed_with_security)
    cluster.allow("ANONYMOUS", bed.bench.group, bed.bench.topic)
    bed.bench.start_mesh(upstream={"us": cluster.tls("another")})
    watch.note(TOLD, bed.until_told(UpstreamProblem.ENCRYPTION))
    assert "certificate" in bed.standing()[UpstreamProblem.ENCRYPTION.value]["reason"]
    bed.members()
    bed.flows("eu")
    cluster.stop()
    cluster.configure(cluster.with_certificate("another"))
    cluster.restart()
    try:
        with watch.measure(FLOWS):
            bed.flows("us")
        bed.until_over()
        assert bed.lines(UpstreamProblem.ENCRYPTION).count("upstream TLS handshake failed") == 1
        bed.assert_nothing_lost(may_repeat=True)
    finally:
        cluster.stop()
        cluster.configure({})
        cluster.restart()


def test_group_not_authorized(bed_with_security: Bed) -> None:
    """From the beginning, and again while records flow."""
    bed, watch, cluster = bed_with_security, Stopwatch("group not authorized"), cluster_of(bed_with_security)
    cluster.allow_topic(USER, bed.bench.topic)
    bed.bench.start_mesh(upstream={"us": cluster.sasl("right")})
    bed.members()
    watch.note(TOLD, bed.until_told(UpstreamProblem.NOT_AUTHORIZED))
    assert bed.standing()[UpstreamProblem.NOT_AUTHORIZED.value]["group"] == bed.bench.group
    bed.flows("eu")
    cluster.allow(USER, bed.bench.group, bed.bench.topic)
    with watch.measure(FLOWS):
        bed.flows("us")
    bed.until_over()
    bed.assert_told_once(UpstreamProblem.NOT_AUTHORIZED)
    bed.assert_nothing_lost(may_repeat=True)


def test_topic_may_not_be_read(bed_with_security: Bed) -> None:
    """The group works, and is assigned partitions; only the records are withheld."""
    bed, watch, cluster = bed_with_security, Stopwatch("topic may not be read"), cluster_of(bed_with_security)
    cluster.allow_but_not_to_read(USER, bed.bench.group, bed.bench.topic)
    bed.bench.start_mesh(upstream={"us": cluster.sasl("right")})
    bed.members()
    bed.bench.feed(300, clusters=[bed.us])
    watch.note(TOLD, bed.until_told(UpstreamProblem.NOT_AUTHORIZED))
    assert "authorization" in bed.standing()[UpstreamProblem.NOT_AUTHORIZED.value]["reason"].lower()
    assert bed.mesh.metric("kafka_mesh_upstream_up", cluster="us") == 1
    bed.flows("eu")
    cluster.allow_topic(USER, bed.bench.topic)
    with watch.measure(FLOWS):
        bed.flows("us")
    bed.until_over()
    bed.assert_told_once(UpstreamProblem.NOT_AUTHORIZED)
    bed.assert_nothing_lost()


@pytest.fixture
def half(secured: SecuredCluster) -> tuple[str, str, str]:
    """A group, a topic that it may read, and one that it may describe but not read; 100 records each."""
    group, good, secret = new_name("half"), new_name("good"), new_name("secret")
    for topic in (good, secret):
        secured.create_topic(topic, 1)
        produce(secured.bootstrap_servers, topic, 100)
    secured.allow(USER, group, good)
    secured.allow_but_not_to_read(USER, group, secret)
    return group, good, secret


@BOTH
def test_a_topic_that_may_not_be_read_keeps_no_other_from_a_new_group(
    secured: SecuredCluster, half: tuple[str, str, str], reads_with: EngineName
) -> None:
    """The start of such a topic cannot be stored."""
    group, good, secret = half
    user = secured.sasl("right")

    async def test() -> None:
        settings = {"reads_with": reads_with, "properties": user["properties"]}
        async with engine(str(user["bootstrap_servers"]), group, good, secret, **settings) as running:
            await running.until(lambda: len(running.records(good)) == 100)
            (told,) = (await running.next(Unopened)).partitions.items()
            assert (told[0], told[1].problem, told[1].lasts) == (source(secret), UpstreamProblem.NOT_AUTHORIZED, True)
            secured.allow_topic(USER, secret)
            await running.until(lambda: len(running.records(secret)) == 100)
            assert not running.all(SourceDown) and not running.all(GroupDown)

    run(test)


@BOTH
def test_commits_wait_until_they_are_stored_though_a_topic_may_not_be_read(
    secured: SecuredCluster, half: tuple[str, str, str], reads_with: EngineName, tmp_path: Path
) -> None:
    """The coordinator hangs for a moment: the mesh answers no commit that is not stored."""
    group, good, secret = half
    began = Consumer({"bootstrap.servers": secured.bootstrap_servers, "group.id": group})
    began.commit(offsets=[TopicPartition(topic, 0, 0) for topic in (good, secret)], asynchronous=False)
    began.close()
    upstream = {"us": {**secured.sasl("right"), "engine": reads_with}}
    mesh = Mesh([secured], [good, secret], tmp_path, {}, upstream)
    properties = {"bootstrap.servers": mesh.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**properties, "enable.auto.commit": False})

    def commit(count: int) -> Future[list[TopicPartition]]:
        place = TopicPartition(good, 0, offset_of(records[count - 1]) + 1)
        return thread.submit(consumer.commit, offsets=[place], asynchronous=False)

    def is_told() -> bool:
        return [each["problem"] for each in mesh.readiness()["degraded"]] == [UpstreamProblem.NOT_AUTHORIZED.value]

    def is_waiting() -> bool:
        return mesh.metric("kafka_mesh_waiting_commits", group=group) == 1

    try:
        with ThreadPoolExecutor(1) as thread:
            consumer.subscribe([good, secret])
            records: list[Message] = []
            while len(records) < 100:
                records += consumer.consume(100, timeout=1.0)
            assert all(each.error() is None for each in records)
            eventually("it is told", is_told, timeout=60)
            assert [each.error for each in commit(50).result(30)] == [None]
            secured.freeze()
            try:
                later = commit(70)
                eventually("the commit is there", lambda: later.done() or is_waiting())
                assert not later.done()
            finally:
                secured.thaw()
            assert [each.error for each in later.result(30)] == [None]
            assert secured.committed(group)[good, 0] == 70
    finally:
        consumer.close()
        mesh.kill()


def test_group_not_authorized_any_more(bed_with_security: Bed) -> None:
    """Its commits fail at once, and members repeat theirs; at the end of its session the group fences it."""
    bed, watch, cluster = bed_with_security, Stopwatch("authorization taken away"), cluster_of(bed_with_security)
    cluster.allow(USER, bed.bench.group, bed.bench.topic)
    bed.bench.start_mesh(upstream={"us": cluster.sasl("right")})
    bed.members()
    bed.flows("us")
    cluster.forbid_group(USER, bed.bench.group)
    bed.bench.feed(300, clusters=[bed.us])
    watch.note("until it is told that commits fail", bed.until_told(UpstreamProblem.COMMITS))
    assert "GROUP_AUTHORIZATION_FAILED" in bed.standing()[UpstreamProblem.COMMITS.value]["reason"]
    retriable = "COORDINATOR_LOAD_IN_PROGRESS"
    eventually("commits to be retried", lambda: bed.mesh.metric("kafka_mesh_commits_total", result=retriable) > 0)
    watch.note(TOLD, bed.until_told(UpstreamProblem.NOT_AUTHORIZED, timeout=90))
    bed.flows("eu")
    cluster.allow(USER, bed.bench.group, bed.bench.topic)
    with watch.measure(FLOWS):
        bed.flows("us")
    bed.until_over()
    bed.assert_nothing_lost(may_repeat=True)


def test_two_processes_with_one_id(bed: Bed) -> None:
    """The older one reports it, is not ready, and leaves the newer one alone; when that one ends, it continues."""
    watch = Stopwatch("two processes with one process_id")
    older = bed.bench.start_mesh(name="older")
    bed.members()
    bed.flows("us")
    newer = bed.bench.start_mesh(name="newer")
    bed.members(1)

    def problems(mesh: Mesh) -> list[str]:
        readiness = mesh.readiness()
        assert (readiness["status"] == 503) == bool(readiness["problems"])
        return [problem for problem in readiness["problems"] if "process_id" in problem]

    with watch.measure(TOLD):
        eventually("the older one says so", lambda: problems(older), timeout=60)
    bed.flows("us")
    assert not problems(newer)
    lines = [entry["event"] for entry in older.log_entries() if entry.get("problem") == UpstreamProblem.FENCED.value]
    assert lines and set(lines) == {"process_id in use by another process"}
    assert len(lines) <= 2, "one for each cluster"
    newer.stop()
    with watch.measure(FLOWS):
        eventually("the older one goes on", lambda: not problems(older), timeout=60)
    assert older.readiness()["status"] == 200
    bed.assert_nothing_lost()
