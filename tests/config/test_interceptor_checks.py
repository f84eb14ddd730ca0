"""Mistakes with interceptors, in the words of the user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mesh.config import ConfigurationError
from mesh.config.interceptors_shown import interceptors_of
from tests.config.files import load_tree
from tests.runtime.interception.installing import install

MASK = {"name": "cards", "type": "mask", "topics": ["*"], "on": ["fetch"], "config": {"paths": ["card"]}}


def tree(*interceptors: Mapping[str, Any], **front: Any) -> dict[str, Any]:
    return {
        "clusters": [{"name": "eu", "bootstrap_servers": "127.0.0.1:9092"}],
        "interceptors": list(interceptors),
        "virtual_clusters": [
            {
                "name": "front",
                "listen": "127.0.0.1:19092",
                "nodes": {"ports": "19100-19119"},
                "interceptors": [each["name"] for each in interceptors],
                "target": {"relay": {"cluster": "eu"}},
                **front,
            }
        ],
    }


def mistakes(folder: Path, configured: dict[str, Any]) -> list[str]:
    try:
        load_tree(folder, configured)
    except ConfigurationError as error:
        return [str(each) for each in error.mistakes]
    return []


def test_what_runs_where_is_listed(tmp_path: Path) -> None:
    small = {"name": "small", "type": "size", "topics": ["a*", "b"], "on": ["produce"], "config": {"maximum": "1KiB"}}
    config = load_tree(tmp_path, tree(MASK, small))
    assert list(interceptors_of(config)) == [
        "virtual cluster front: cards (mask) runs in 2 workers, on fetch, topics *",
        "virtual cluster front: small (size) runs inline, on produce, topics a*, b",
    ]


def of_type(type: str, **more: Any) -> dict[str, Any]:
    config = {"filter": {"header": "a", "equals": "b"}, "size": {"maximum": 1}, "mask": {"paths": ["a"]}}
    return {"name": "it", "type": type, "topics": ["*"], "on": ["fetch"], "config": config.get(type, {}), **more}


@pytest.mark.parametrize(
    ("interceptor", "expected"),
    [
        (of_type("size"), "interceptors[0].on: 'fetch': [produce] for the type size"),
        (of_type("mask", on=[]), "interceptors[0].on: (an empty list): at least one"),
        (of_type("mask", topics=[]), "interceptors[0].topics: (an empty list): at least one"),
        (of_type("mask", on=["both"]), "interceptors[0].on[0]: 'both': 'produce' or 'fetch'"),
        (
            of_type("mask", on=["produce"], on_failure="drop"),
            "interceptors[0].on_failure: 'drop': fail, reject or pass",
        ),
        (of_type("mask", on_failure="reject"), "interceptors[0].on_failure: 'reject': fail, pass or drop"),
        (of_type("mask", config={}), "interceptors[0].config.paths: (missing): required"),
        (
            of_type("mask", config={"paths": ["a"], "keep": 1}),
            "interceptors[0].config.keep: 1: unknown key; the keys here",
        ),
        (
            of_type("size", on=["produce"], config={"maximum": "much"}),
            "interceptors[0].config.maximum: 'much': a size like",
        ),
        (
            of_type("unknown"),
            "interceptors[0].type: 'unknown': avro, drop_headers, encrypt, filter, ",
        ),
        (of_type("mask", timeout="0s"), "interceptors[0].timeout: '0s': more than 0"),
        (of_type("mask", retries=11), "interceptors[0].retries: 11: at most 10"),
    ],
)
def test_mistakes(tmp_path: Path, interceptor: dict[str, Any], expected: str) -> None:
    (found,) = mistakes(tmp_path, tree(interceptor))
    assert found.startswith(expected)


def test_asynchronous_ones_do_not_run_inline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "tests.interceptors.test_chain:Later", monkeypatch, "later")
    (found,) = mistakes(tmp_path, tree(of_type("later", isolation="inline")))
    assert found.startswith(
        "interceptors[0].isolation: 'inline': process, or left out: inline, every client would wait"
    )
    assert not mistakes(tmp_path, tree(of_type("later")))


def test_what_is_no_interceptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "pathlib:Path", monkeypatch, "path")
    (found,) = mistakes(tmp_path, tree(of_type("path")))
    assert "pathlib:Path is no class that extends Interceptor" in found


def test_names(tmp_path: Path) -> None:
    found = mistakes(tmp_path, tree(MASK, MASK))
    assert found[0].startswith("interceptors[1].name: 'cards': a name of its own; interceptors[0].name is the same")
    (found_unknown,) = mistakes(tmp_path, tree(MASK, interceptors=["cords"]))
    assert found_unknown == "virtual_clusters[0].interceptors[0]: 'cords': one of the interceptors: cards"
    (twice,) = mistakes(tmp_path, tree(MASK, interceptors=["cards", "cards"]))
    assert twice == "virtual_clusters[0].interceptors[1]: 'cards': named once"


def test_routes_name_them_too(tmp_path: Path) -> None:
    configured = tree(MASK, {**MASK, "name": "again"}, interceptors=["cards"], target={"router": "all"})
    ends = [{"name": each, "id": id, "target": {"cluster": "eu"}} for id, each in enumerate(("a", "b"))]
    ends[0]["interceptors"] = ["again"]
    first = {"name": "first", "id": 0, "target": {"router": "second"}, "interceptors": ["none"]}
    rules = {"default": "first"}
    second = {"rules": [{"client_ids": ["x"], "route": "a"}], "default": "b"}
    configured["routers"] = [
        {"name": "all", "type": "clients", "config": rules, "routes": [first]},
        {"name": "second", "type": "clients", "config": second, "routes": ends},
    ]
    (found,) = mistakes(tmp_path, configured)
    assert found == "routers[0].routes[0].interceptors[0]: 'none': one of the interceptors: cards, again"
    first["interceptors"] = ["again"]
    (found,) = mistakes(tmp_path, configured)
    assert found.startswith(
        "routers[1].routes[0].interceptors[0]: 'again': an interceptor that is not on this way already"
    )
    first["interceptors"] = []
    assert list(interceptors_of(load_tree(tmp_path, configured))) == [
        "virtual cluster front: cards (mask) runs in 2 workers, on fetch, topics *",
        "virtual cluster front, router second, route a: again (mask) runs in 2 workers, on fetch, topics *",
    ]


POOL = {"pool": {"topics": [{"prefix": "", "cluster": "eu"}], "groups": ["*"], "start": "earliest"}}
SIZE = {"name": "small", "type": "size", "topics": ["*"], "on": ["produce"], "config": {"maximum": 1}}


def test_pools_know_no_principals(tmp_path: Path) -> None:
    limited = {**MASK, "principals": ["User:a*"]}
    (found,) = mistakes(tmp_path, tree(limited, nodes=None, target=POOL))
    assert found.startswith(
        "virtual_clusters[0].interceptors[0]: 'cards': an interceptor without principals: in a pool"
    )
    assert not mistakes(tmp_path, tree(MASK, nodes=None, target=POOL))


def test_nothing_is_produced_into_pools(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, tree(SIZE, nodes=None, target=POOL))
    assert found.startswith("virtual_clusters[0].interceptors[0]: '[produce]': an interceptor with fetch in on")
    configured = tree(SIZE, target={"router": "all"}, coordinator="127.0.0.1:19093")
    rules = {"rules": [{"client_ids": ["a"], "route": "eu"}], "default": "shared"}
    routes: list[dict[str, Any]] = [
        {"name": "eu", "id": 0, "target": {"cluster": "eu"}},
        {"name": "shared", "id": 1, "target": POOL},
    ]
    configured["routers"] = [{"name": "all", "type": "clients", "config": rules, "routes": routes}]
    assert not mistakes(tmp_path, configured), "the other route has producers"
    configured["virtual_clusters"][0]["interceptors"] = []
    routes[1]["interceptors"] = ["small"]
    (found,) = mistakes(tmp_path, configured)
    assert found.startswith("routers[0].routes[1].interceptors[0]: '[produce]'")
