"""The configurations that several workers can serve, and their addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.config.values import Address
from tests.config.files import Tree, load_tree, mistakes, pool, small


def several(workers: int = 2) -> Tree:
    return {"workers": workers, **small()}


def test_each_has_ports_and_a_part_of_the_budget_of_its_own(tmp_path: Path) -> None:
    config = load_tree(tmp_path, {**several(), "process_id": "mesh", "budget": "100MiB"})
    first, second = (config.for_worker(number) for number in (1, 2))
    assert (first.process_id, second.process_id) == ("mesh-1", "mesh-2")
    assert first.budget == second.budget == 50 << 20
    served = (*first.virtual_clusters, *second.virtual_clusters)
    addresses = [(each.listen.port, each.coordinator.port) for each in served]
    assert addresses == [(19094, 19095), (19096, 19097)]
    worker = second.virtual_clusters[0].worker
    assert worker is not None
    assert (worker.number, worker.bootstrap) == (2, Address("127.0.0.1", 19092))


def test_what_is_advertised_is_moved_by_as_many_ports(tmp_path: Path) -> None:
    tree = several()
    tree["virtual_clusters"][0]["advertise"] = {"listen": "mesh.example:9092", "coordinator": "mesh.example:9093"}
    (configured,) = load_tree(tmp_path, tree).for_worker(2).virtual_clusters
    assert str(configured.advertised_listen) == "mesh.example:9096"
    assert str(configured.advertised_coordinator) == "mesh.example:9097"


def test_a_single_one_is_as_configured(tmp_path: Path) -> None:
    config = load_tree(tmp_path, small())
    assert config.for_worker(1) == config
    assert config.virtual_clusters[0].worker is None


def test_ports_of_workers_collide_with_nothing(tmp_path: Path) -> None:
    tree = several()
    tree["admin"] = {"listen": "127.0.0.1:19097"}
    assert mistakes(tmp_path, tree) == [
        "workers: 2: addresses of their own: worker 2 of virtual_clusters[0] would listen on 127.0.0.1:19097, "
        "and admin.listen is 127.0.0.1:19097"
    ]


def test_ports_suffice(tmp_path: Path) -> None:
    tree = several()
    tree["virtual_clusters"][0] |= {"listen": "127.0.0.1:65530"}
    found = mistakes(tmp_path, tree)
    assert found == []
    tree["workers"] = 3
    (mistake,) = mistakes(tmp_path, tree)
    assert mistake.startswith("workers: 3: fewer, so that there are enough ports: worker 3 of virtual_clusters[0]")


@pytest.mark.parametrize("limit", [{"records": 10}, {"bytes": "1MiB"}, {"in_flight": 5}])
def test_limits_of_whole_groups(tmp_path: Path, limit: Tree) -> None:
    tree = several()
    pool(tree)["limits"] = [{"of": "member", **limit}]
    assert mistakes(tmp_path, tree) == []
    pool(tree)["limits"].append(limit)
    assert mistakes(tmp_path, tree) == [
        "workers: 2: 1, since virtual_clusters[0].target.pool.limits[1] limits a whole group, "
        "whose members are with several workers"
    ]


def test_pools_behind_routers(tmp_path: Path) -> None:
    tree = several()
    behind = tree["virtual_clusters"][0]["target"]
    route = {"name": "pooled", "id": 0, "target": behind}
    tree["routers"] = [{"name": "shop", "type": "clients", "routes": [route], "config": {"default": "pooled"}}]
    tree["virtual_clusters"][0]["target"] = {"router": {"name": "shop"}}
    found = [each for each in mistakes(tmp_path, tree) if each.startswith("workers")]
    assert found == ["workers: 2: 1, since routers[0].routes[0] leads to a pool, whose clients would change workers"]


@pytest.mark.parametrize("wrong", [0, 65, "many"])
def test_numbers(tmp_path: Path, wrong: object) -> None:
    (mistake,) = mistakes(tmp_path, {**small(), "workers": wrong})
    assert mistake.startswith(f"workers: {wrong!r}: ")


def test_one_process_numbers_what_is_left_of_producers_batches(tmp_path: Path) -> None:
    tree = several()
    some = {"name": "some", "type": "sample", "topics": ["*"], "config": {"part": 0.5}}
    tree["interceptors"] = [{**some, "on": ["fetch"]}]
    assert mistakes(tmp_path, tree) == []
    tree["interceptors"] = [{**some, "on": ["produce"]}]
    assert mistakes(tmp_path, tree) == [
        "workers: 2: 1, since interceptors[0].on may drop producers' records, which one process must number"
    ]


def test_peers_need_an_address_of_their_own(tmp_path: Path) -> None:
    tree = {**small(), "peers": {"urls": []}}
    assert [each.split(": ")[0] for each in mistakes(tmp_path, tree)] == ["peers.urls", "peers"]
    tree |= {"peers": {"urls": ["http://mesh-1:9644"]}, "admin": {"listen": "127.0.0.1:9644"}}
    assert mistakes(tmp_path, tree) == []
    (configured,) = load_tree(tmp_path, tree).for_worker(1).virtual_clusters
    assert configured.has_peers
    tree["peers"]["urls"] = ["mesh-1:9644"]
    (mistake,) = mistakes(tmp_path, tree)
    assert mistake.startswith("peers.urls[0]: 'mesh-1:9644': http://HOST:PORT or https://HOST:PORT")
