"""Descriptions over a real broker that does not know them: restarts, several processes, failures, clean-up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import KAFKA_MESH
from tests.integration.processes import completed, eventually
from tests.integration.relay_mesh import RelayMesh
from tests.topologies.asking import EPOCH, Asking
from tests.topologies.clusters import cluster_without, mesh_of
from tests.topology_plugins.test_plugins import Service, service

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("topologies")]

NOT_STORED, ERROR, AVAILABLE = 1, 2, 3
UPDATE_FAILED = ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with cluster_without(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def ready(mesh: RelayMesh, member: str = "member-1") -> Asking:
    ask = Asking(mesh.address_of(1), member)
    ask.wait_for_coordinator()
    ask.wait_for_store()
    return ask


def status(ask: Asking, group: str) -> int:
    return int(ask.describe(group)["groups"][0]["topology_description_status"])


def deleted(ask: Asking, *groups: str, version: int = 3) -> dict[str, tuple[int, str | None]]:
    results = ask.delete(*groups, version=version)["results"]
    return {each["group_id"]: (each["error_code"], each.get("error_message")) for each in results}


def test_a_restart_keeps_descriptions_and_asks_for_none_again(cluster: KafkaCluster, tmp_path: Path) -> None:
    with mesh_of(cluster, tmp_path) as mesh:
        ask = ready(mesh)
        assert ask.join("restarted")["topology_description_required"]
        assert ask.push("restarted")["error_code"] == ErrorCode.NONE
        mesh.kill()
        mesh.restart()
        again = ready(mesh)
        assert status(again, "restarted") == AVAILABLE
        beat = again.beat("restarted", member_epoch=2)
        assert (beat["error_code"], beat["topology_description_required"]) == (ErrorCode.NONE, False)
        # A group that has not pushed is asked again: the pause was the process's.
        again.join("not-pushed")
        mesh.kill()
        mesh.restart()
        last = ready(mesh)
        assert last.beat("not-pushed", member_epoch=2)["topology_description_required"]


def test_two_processes_share_what_was_pushed(cluster: KafkaCluster, tmp_path: Path) -> None:
    with mesh_of(cluster, tmp_path, "one") as one, mesh_of(cluster, tmp_path, "other") as other:
        ask, beside = ready(one), ready(other, "member-2")
        ask.join("shared")
        assert ask.push("shared")["error_code"] == ErrorCode.NONE
        eventually("the other process has read it", lambda: status(beside, "shared") == AVAILABLE)
        assert not beside.join("shared")["topology_description_required"]
        for each in (ask, beside):
            each.leave("shared")
        assert deleted(beside, "shared") == {"shared": (ErrorCode.NONE, None)}
        ask.join("shared")
        eventually("the first process has read that", lambda: status(ask, "shared") == NOT_STORED)


@pytest.mark.long
def test_while_the_store_is_away_heartbeats_go_on_and_pushes_may_be_repeated(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    with cluster_without(tmp_path / "store") as store, mesh_of(cluster, tmp_path, of_store=store) as mesh:
        ask = ready(mesh)
        assert ask.join("stored")["topology_description_required"]
        store.kill()
        answer = ask.push("stored")
        assert (answer["error_code"], "store" in answer["error_message"]) == (UPDATE_FAILED, True)
        assert ask.beat("stored", member_epoch=2)["error_code"] == ErrorCode.NONE
        joined = ask.join("another")
        assert (joined["error_code"], joined["topology_description_required"]) == (ErrorCode.NONE, True)
        store.restart()

        def is_taken() -> bool:
            ask.join("stored")  # its session may have ended before the store was back
            return bool(ask.push("stored")["error_code"] == ErrorCode.NONE)

        eventually("the store takes it", is_taken)
        assert status(ask, "stored") == AVAILABLE


@pytest.mark.long
def test_a_mesh_without_its_store_passes_heartbeats_from_the_start(cluster: KafkaCluster, tmp_path: Path) -> None:
    with cluster_without(tmp_path / "store") as store:
        store.kill()
        with mesh_of(cluster, tmp_path, of_store=store) as mesh:
            ask = Asking(mesh.address_of(1))
            ask.wait_for_coordinator()
            joined = ask.join("unknown")
            assert (joined["error_code"], joined["topology_description_required"]) == (ErrorCode.NONE, False)
            assert ask.push("unknown")["error_code"] == UPDATE_FAILED
            assert status(ask, "unknown") == ERROR
            ask.leave("unknown")
            assert deleted(ask, "unknown", "nobody's")["unknown"][0] == ErrorCode.GROUP_DELETION_FAILED
            assert deleted(ask, "nobody's")["nobody's"][0] == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.long
def test_failures_of_a_plugin_are_told_and_hold_groups_back(cluster: KafkaCluster, tmp_path: Path) -> None:
    with service() as url, mesh_of(cluster, tmp_path, plugin="http", options={"url": url}) as mesh:
        ask = ready(mesh)
        for group in ("kept", "other", "busy"):
            ask.join(group)
            assert ask.push(group)["error_code"] == ErrorCode.NONE
        Service.refusal = 503, b"no room"
        assert ask.push("kept")["error_message"] == "The topology service answered 503: no room"
        assert status(ask, "other") == ERROR
        for group in ("kept", "other"):
            ask.leave(group)
        failed = ErrorCode.GROUP_DELETION_FAILED, "Topology description plugin failed to delete the topology."
        gone = ErrorCode.GROUP_ID_NOT_FOUND, None
        expected = {"kept": failed, "busy": (ErrorCode.NON_EMPTY_GROUP, None), "nobody's": gone}
        assert deleted(ask, "kept", "busy", "nobody's") == expected
        assert deleted(ask, "kept", version=2) == {"kept": (ErrorCode.UNKNOWN_SERVER_ERROR, None)}
        assert deleted(ask, "kept", version=0) == {"kept": (ErrorCode.UNKNOWN_SERVER_ERROR, None)}
        assert ask.describe("kept")["groups"][0]["error_code"] == ErrorCode.NONE, "it is there"
        Service.refusal = None
        done = ErrorCode.NONE, None
        assert deleted(ask, "kept", "other", "busy") == {
            "kept": done, "other": done, "busy": (ErrorCode.NON_EMPTY_GROUP, None)
        }  # fmt: skip
        assert status(ask, "busy") == AVAILABLE
        Service.refusal = 400, b"too large"
        ask.join("large")
        assert ask.push("large")["error_message"] == "The topology service answered 400: too large"
        Service.refusal = None
        assert not ask.beat("large", member_epoch=2)["topology_description_required"], "it was refused for good"


def test_requests_that_follow_a_deletion_are_answered_after_it(cluster: KafkaCluster, tmp_path: Path) -> None:
    with mesh_of(cluster, tmp_path) as mesh:
        ask = ready(mesh)
        ask.join("pipelined")
        ask.push("pipelined")
        ask.leave("pipelined")
        deletion, description = ask.ask_together(
            (ApiKey.DELETE_GROUPS, 3, {"groups_names": ["pipelined"]}),
            (ApiKey.STREAMS_GROUP_DESCRIBE, 1, {"group_ids": ["pipelined"], "include_topology_description": True}),
        )
        assert deletion["results"][0]["error_code"] == ErrorCode.NONE
        assert description["groups"][0]["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND


def test_what_the_broker_does_not_support_yet_does_not_reach_it(cluster: KafkaCluster, tmp_path: Path) -> None:
    with mesh_of(cluster, tmp_path) as mesh:
        ask = ready(mesh)
        offsets = [{"subtopology_id": "0", "partition": 0, "offset": 7}]
        tasks = [{"subtopology_id": "0", "partitions": [0]}]
        joined = ask.join("ahead", task_offsets=[], task_end_offsets=[])
        assert joined["error_code"] == ErrorCode.NONE
        beat = ask.beat(
            "ahead",
            member_epoch=joined["member_epoch"],
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=tasks,
            task_offsets=offsets,
            task_end_offsets=offsets,
        )
        assert beat["error_code"] == ErrorCode.NONE


def test_operators_see_topologies(cluster: KafkaCluster, tmp_path: Path) -> None:
    with mesh_of(cluster, tmp_path) as mesh:
        ask = ready(mesh)
        ask.join("seen")
        ask.push("seen")
        told = run(mesh, "--streams")
        assert "seen" in told and str(EPOCH) in told
        flowchart = run(mesh, "--streams", "--group", "seen")
        assert flowchart.startswith("flowchart TD") and '"source"' in flowchart
        assert mesh.metric("kafka_mesh_streams_group_topology_description_set_success_total") == 2


def run(mesh: RelayMesh, *words: str) -> str:
    """The output of `kafka-mesh status`."""
    done = completed([KAFKA_MESH, "status", "--url", mesh.admin_url, *words])
    assert done.returncode == 0, done.stderr
    return done.stdout
