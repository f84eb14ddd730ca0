"""`kafka-mesh check --apis`: the served APIs, and the reasons for missing ones."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from mesh.app.from_config import refused_apis
from mesh.commands import served_apis
from mesh.commands.served_apis import limited_by, of_a_relay, of_a_router
from mesh.config.model import Config
from mesh.config.relay import RelayConfig
from mesh.records.spans import ClusterName
from mesh.routing.names import RouterName
from mesh.wire.apis import ApiKey
from mesh.wire.client.messages import VersionRange
from tests.app.running import COMMAND, MockCluster
from tests.integration.processes import completed, free_port, free_ports
from tests.router.pass_through import install_pass_through


def test_every_reason_has_its_words() -> None:
    relay = RelayConfig(cluster=ClusterName("eu"), refuse=("CREATE_TOPICS",))
    refused = refused_apis(relay, has_credentials=True)
    theirs = {0: (0, 13), 38: (1, 3), 2: (99, 100), 1: (4, 99), 19: (2, 7), 86: (0, 0), 999: (0, 1)}
    rows = {
        name: rest for name, *rest in of_a_relay(refused, {key: VersionRange(*each) for key, each in theirs.items()})
    }
    assert rows["PRODUCE"] == ["0-13", "0-13", ""]
    assert rows["FETCH"] == ["4-99", "4-18", "this kafka-mesh knows no other versions"]
    assert rows["CREATE_TOPICS"] == ["2-7", "-", "refuse"]
    assert rows["DELETE_SHARE_GROUP_STATE"] == ["0-0", "-", "only brokers use it"]
    assert rows["CREATE_DELEGATION_TOKEN"] == ["1-3", "-", "a token would be the mesh's own principal's"]
    assert rows["LIST_OFFSETS"][:2] == ["99-100", "-"]
    assert rows["999"] == ["0-1", "-", "this kafka-mesh does not know it"]
    assert rows["METADATA"] == ["-", "-", "the cluster does not serve it"]


def test_a_relay_under_rules_serves_what_a_union_does() -> None:
    theirs = {ApiKey.PRODUCE: (0, 13), ApiKey.CREATE_ACLS: (1, 3), ApiKey.CREATE_TOPICS: (2, 7)}
    served = {ClusterName("eu"): {int(key): VersionRange(*each) for key, each in theirs.items()}}
    rows = {name: rest for name, *rest in of_a_router(served, {ApiKey.CREATE_TOPICS: "refuse"})}
    assert rows["PRODUCE"] == ["0-13", "0-13", ""]
    assert rows["CREATE_TOPICS"] == ["2-7", "-", "refuse"]
    assert rows["CREATE_ACLS"][1:] == ["-", "the pattern of an ACL may match names in several clusters"]


def test_what_routers_leave_out_is_said_of_them() -> None:
    rows = [("PRODUCE", "0-13", "0-13", ""), ("FETCH", "4-18", "4-18", ""), ("API_VERSIONS", "0-4", "0-4", "")]
    limits = {
        RouterName("readers"): {ApiKey.FETCH: (0, 16), ApiKey.LIST_OFFSETS: (0, 99)},
        RouterName("old"): {ApiKey.FETCH: (0, 12), ApiKey.PRODUCE: (0, 99)},
    }
    assert list(limited_by(rows, limits)) == [
        ("PRODUCE", "0-13", "-", "the router readers serves no more"),
        ("FETCH", "4-18", "4-12", "the router old serves no more"),
        ("API_VERSIONS", "0-4", "0-4", ""),
    ]


@pytest.mark.parametrize("target", [{"relay": {"cluster": "eu"}}, {"router": "all"}])
def test_share_consumers_are_not_served_where_interceptors_see_what_is_fetched(
    target: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the virtual cluster itself has it."""
    theirs = {ApiKey.SHARE_FETCH: VersionRange(1, 2), ApiKey.FETCH: VersionRange(4, 18)}
    monkeypatch.setattr(served_apis, "versions_of", lambda _cluster: theirs)
    assert here("SHARE_FETCH", target, on="fetch").split() == ["1-2", "-", *_NOT_SEEN.split()]
    assert here("SHARE_FETCH", target, on="produce").split() == ["1-2", "1-2"]
    assert here("FETCH", target, on="fetch").split() == ["4-18", "4-18"]


def test_topics_have_names_where_interceptors_stand_in_front_of_a_router_that_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_pass_through(tmp_path, monkeypatch)
    theirs = {ApiKey.FETCH: VersionRange(4, 18)}
    monkeypatch.setattr(served_apis, "versions_of", lambda _cluster: theirs)
    said = here("FETCH", {"router": "through"}, on="produce")
    assert said.split() == ["4-18", "4-12", *["the", "router", "through", "serves", "no", "more"]]


_NOT_SEEN = "interceptors would not see its records"


def here(api: str, target: dict[str, Any], on: str) -> str:
    """The note about an API of which an interceptor sees one side."""
    front = {"name": "front", "listen": "127.0.0.1:1", "nodes": {"ports": "2-9"}, "interceptors": ["it"]}
    config = {"headers": {"a": "b"}}
    routes = [{"name": "eu", "id": 0, "target": {"cluster": "eu"}}]
    union = {"topics": [{"prefix": "", "route": "eu"}], "default": "eu"}
    routers = [
        {"name": "all", "type": "topics", "config": union, "routes": routes},
        {"name": "through", "type": "pass-through", "config": {"route": "eu"}, "routes": routes},
    ]
    tree = {
        "clusters": [{"name": "eu", "bootstrap_servers": "127.0.0.1:9092"}],
        "interceptors": [{"name": "it", "type": "stamp", "topics": ["*"], "on": [on], "config": config}],
        "routers": [each for each in routers if each["name"] == target.get("router")],
        "virtual_clusters": [{**front, "target": target}],
    }
    output = io.StringIO()
    served_apis.show(Config.model_validate(tree), Console(file=output, width=200))
    (line,) = [line for line in output.getvalue().splitlines() if line.split()[0] == api]
    return line.removeprefix(api)


def check(folder: Path, address: str) -> subprocess.CompletedProcess[str]:
    relay = {"relay": {"cluster": "eu"}}
    pool = {"pool": {"topics": [{"prefix": "", "cluster": "eu"}], "groups": ["*"]}}
    nodes = {"ports": free_port(), "ids": [1]}
    file = folder / "mesh.yaml"
    virtual_clusters = [
        {"name": "front", "listen": f"127.0.0.1:{free_port()}", "nodes": nodes, "target": relay},
        {"name": "shared", "listen": "127.0.0.1:1", "target": pool},
    ]
    tree = {"clusters": [{"name": "eu", "bootstrap_servers": address}], "virtual_clusters": virtual_clusters}
    file.write_text(yaml.safe_dump(tree))
    return completed([*COMMAND, "check", "--apis", file])


def test_a_cluster_is_asked(tmp_path: Path) -> None:
    cluster = MockCluster()
    done = check(tmp_path, cluster.address)
    assert (done.returncode, done.stderr) == (0, "")
    assert "front: a relay of eu" in done.stdout
    assert "shared: a pool, independent of its clusters" in done.stdout
    assert "CONSUMER_GROUP_DESCRIBE" in done.stdout


def test_a_cluster_does_not_answer(tmp_path: Path) -> None:
    done = check(tmp_path, f"127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert done.stderr.startswith("kafka-mesh: eu: API versions unknown: ")
    assert "Traceback" not in done.stderr


def test_the_others_are_shown_when_a_cluster_does_not_answer(tmp_path: Path) -> None:
    """Each silent cluster is asked once, and named."""
    cluster, down = MockCluster(), [f"127.0.0.1:{free_port()}" for _ in range(2)]
    addresses = {"eu": down[0], "us": cluster.address, "asia": down[1]}
    router = {
        "name": "all",
        "type": "topics",
        "config": {"topics": [{"prefix": "", "route": "us"}], "default": "us"},
        "routes": [{"name": name, "id": id, "target": {"cluster": name}} for id, name in enumerate(("us", "asia"))],
    }
    targets = {"one": {"relay": {"cluster": "eu"}}, "two": {"router": "all"}, "three": {"relay": {"cluster": "us"}}}
    ports = {name: free_ports(2) for name in targets}
    tree = {
        "clusters": [{"name": name, "bootstrap_servers": address} for name, address in addresses.items()],
        "routers": [router],
        "virtual_clusters": [
            {
                "name": name,
                "listen": f"127.0.0.1:{free_port()}",
                "nodes": {"ports": f"{ports[name][0]}-{ports[name][1]}"},
                "target": target,
            }
            for name, target in targets.items()
        ],
    }
    file = tmp_path / "mesh.yaml"
    file.write_text(yaml.safe_dump(tree))
    done = completed([*COMMAND, "check", "--apis", file])
    assert done.returncode == 1, done
    assert "one: a relay of eu (unknown: eu)" in done.stdout
    assert "two: the router all (unknown: asia)" in done.stdout
    assert "three: a relay of us\n" in done.stdout
    assert done.stdout.count("CONSUMER_GROUP_DESCRIBE") == 2
    assert done.stderr.count("API versions unknown") == 2
    for name in ("eu", "asia"):
        assert f"{name}: API versions unknown: " in done.stderr
