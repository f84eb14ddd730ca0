"""A configuration that changes on real brokers while members consume: no record is lost, and none comes twice."""

from __future__ import annotations

import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.bench import Bench, until_left
from tests.integration.consumer import ConsumerOptions
from tests.integration.members import ConfluentMember
from tests.integration.mesh_process import KAFKA_MESH, Mesh
from tests.integration.processes import completed, free_port

BACK_SOON = {"reconnect.backoff.max.ms": 500}
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice"}

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def reload(mesh: Mesh, configuration: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    mesh.file.write_text(yaml.safe_dump(configuration, sort_keys=False))
    return completed([KAFKA_MESH, "reload", mesh.file, "--timeout", "240"], timeout=300)


def test_a_configuration_changes_under_load(bench: Bench, tmp_path: Path) -> None:
    mesh = bench.start_mesh()
    configuration = yaml.safe_load(mesh.file.read_text())
    removed = configuration["clusters"][1]["name"]
    tested = configuration["virtual_clusters"][0]
    tested["target"]["pool"] |= {"groups": [bench.group], "group_less": None}
    users = [{"name": "alice", "password": "sesame-1"}]
    other = {
        **deepcopy(tested),
        "name": "other",
        "listen": f"127.0.0.1:{free_port()}",
        "coordinator": f"127.0.0.1:{free_port()}",
        "advertise": {},
        "sasl": {"mechanisms": ["SCRAM-SHA-256"], "users": users},
    }
    other["target"]["pool"]["groups"] = [f"{bench.group}-other"]
    configuration["virtual_clusters"].append(other)
    assert reload(mesh, configuration).returncode == 0

    def login(name: str, password: str) -> ConfluentMember:
        properties = {"client.id": name, **LOGIN, "sasl.password": password}
        options = ConsumerOptions(other["listen"], f"{bench.group}-other", bench.topic, properties=properties)
        member = ConfluentMember(name, options, tmp_path)
        others.append(member)
        member.until_assigned()
        return member

    def change_under_load(configuration: dict[str, Any], code: int = 0) -> list[str]:
        with bench.feeding(3_000, rate=300):
            done = reload(mesh, configuration)
        assert done.returncode == code, done.stderr
        return done.stdout.splitlines()[1:]

    others: list[ConfluentMember] = []
    try:
        watching = login("watching", "sesame-1")
        for name in ("auto-1", "auto-2"):
            bench.confluent(name, properties=BACK_SOON)
        bench.confluent("sync", commit="sync", records_per_poll=50, properties=BACK_SOON)
        for member in bench.members:
            member.until_assigned()
        bench.feed(3_000)

        fewer = deepcopy(configuration)  # of the first virtual cluster: the other one keeps both
        topic = fewer["virtual_clusters"][0]["target"]["pool"]["topics"][0]
        topic["from"] = [each for each in topic["from"] if each["cluster"] != removed]
        assert change_under_load(fewer) == ["  virtual cluster tested: changed (target.pool.topics)"]
        until_left(bench.clusters[1], bench.group)
        assert change_under_load(configuration) == ["  virtual cluster tested: changed (target.pool.topics)"]
        users[0]["password"] = "sesame-2"
        assert change_under_load(configuration) == ["  virtual cluster other: changed (sasl)"]
        login("newer", "sesame-2")
        bad = deepcopy(configuration)
        bad["virtual_clusters"][0]["target"]["pool"]["topics"][0]["from"][0]["cluster"] = "mars"
        assert change_under_load(bad, code=2) == []

        bench.account_when_all_arrived(timeout=120).assert_each_once()
        bench.account_when_all_arrived(timeout=120, members=others).assert_each_once()
        assert not watching.events["error"] + watching.events["revoked"] + watching.events["lost"], watching.events
        for member in (*bench.members, *others):
            member.assert_running()
    finally:
        for member in others:
            member.kill()
