"""A small configuration to make mistakes in."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from mesh.config import Config, ConfigurationError, load
from mesh.config.model import PoolTargetConfig
from mesh.config.pool import PoolConfig

Tree = dict[str, Any]

_SMALL: Tree = {
    "clusters": [
        {"name": "eu", "bootstrap_servers": "127.0.0.1:9092"},
        {"name": "us", "bootstrap_servers": "127.0.0.1:9192"},
    ],
    "virtual_clusters": [
        {
            "name": "orders",
            "listen": "127.0.0.1:19092",
            "target": {
                "pool": {
                    "topics": [
                        {
                            "name": "orders",
                            "from": [{"cluster": "eu", "topic": "orders"}, {"cluster": "us", "topic": "orders"}],
                        },
                        {"prefix": "apac.", "cluster": "us"},
                    ],
                    "groups": ["*"],
                }
            },
        }
    ],
}


def small() -> Tree:
    """A correct configuration, to be changed."""
    return copy.deepcopy(_SMALL)


def pool(tree: Tree, index: int = 0) -> Tree:
    """The pool of one of its virtual clusters."""
    found: Tree = tree["virtual_clusters"][index]["target"]["pool"]
    return found


def add_virtual_cluster(tree: Tree, port: int, **keys: Any) -> Tree:
    """Adds a virtual cluster like the first, with these keys of its pool different. Returns its pool."""
    copied = copy.deepcopy(tree["virtual_clusters"][0])
    copied |= {"name": f"copy-{port}", "listen": f"127.0.0.1:{port}"}
    copied["target"]["pool"] |= keys
    tree["virtual_clusters"].append(copied)
    return pool(tree, -1)


def load_text(folder: Path, text: str, variables: Mapping[str, str] | None = None) -> Config:
    file = folder / "mesh.yaml"
    file.write_text(text)
    return load(file, variables or {})


def load_tree(folder: Path, tree: object, variables: Mapping[str, str] | None = None) -> Config:
    return load_text(folder, yaml.safe_dump(tree, sort_keys=False), variables)


def pool_of(config: Config, index: int = 0) -> PoolConfig:
    """The pool of one of its virtual clusters."""
    target = config.virtual_clusters[index].target
    assert isinstance(target, PoolTargetConfig)
    return target.pool


def mistakes(folder: Path, tree: object, variables: Mapping[str, str] | None = None) -> list[str]:
    """The mistakes in a configuration, one line each; none if it is correct. A str is taken unchanged, else it is
    dumped."""
    try:
        load_text(folder, tree, variables) if isinstance(tree, str) else load_tree(folder, tree, variables)
    except ConfigurationError as error:
        return [str(mistake) for mistake in error.mistakes]
    return []
