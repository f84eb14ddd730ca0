"""No secret is ever shown: in no message, no representation and no output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesh.config import Config
from mesh.config.secrets import is_secret_name
from tests.config.files import load_tree, mistakes, pool, small

SECRET = "hunter2"


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "SASL.PASSWORD",
        "api_token",
    ],
)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["ssl.key.location", "client.id", "sasl.username", "ssl.ca.location", "session_timeout"]
)
def test_names_that_are_none(name: str) -> None:
    assert not is_secret_name(name)


def _secured() -> dict[str, Any]:
    tree = small()
    tree["clusters"][0]["properties"] = {"sasl.password": SECRET, "sasl.username": "${USER}", "client.id": "x-${USER}"}
    return tree


def _load(folder: Path) -> Config:
    return load_tree(folder, _secured(), {"USER": "alice-of-kafka"})


def test_redacted(tmp_path: Path) -> None:
    tree = _secured()
    tree["clusters"][0]["bootstrap_servers"] = "${HOST}"
    pool(tree)["max_pools"] = "${POOLS}"
    # By chance another value contains one from the environment.
    tree["clusters"][1]["properties"] = {"client.id": "of alice-of-kafka"}
    config = load_tree(tmp_path, tree, {"USER": "alice-of-kafka", "HOST": "h:1", "POOLS": "17"})
    shown: Any = config.redacted()
    assert shown["clusters"][0] == {
        "name": "eu",
        "bootstrap_servers": "${HOST}",
        "engine": "auto",
        "producer_id_tag": None,
        "properties": {"sasl.password": "***", "sasl.username": "${USER}", "client.id": "x-${USER}"},
    }
    assert shown["clusters"][1]["properties"] == {"client.id": "of ${USER}"}
    assert shown["virtual_clusters"][0]["target"]["pool"]["max_pools"] == "${POOLS}"
    assert config.clusters[0].client_properties()["sasl.password"] == SECRET


def test_representations(tmp_path: Path) -> None:
    config = _load(tmp_path)
    for text in (repr(config), str(config), repr(config.clusters[0]), str(config.redacted())):
        assert SECRET not in text
        assert "alice-of-kafka" not in text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("clusters", 0, "sasl.password"), SECRET),
        (("clusters", 0, "properties", "bogus"), "${SECRET}"),
        (("clusters", 0, "properties", "group.id"), "${SECRET}"),
        (("clusters", 0, "properties", "socket.timeout.ms"), "${SECRET}"),
        (("clusters", 0, "properties", "security.protocol"), "${SECRET}"),
        (("clusters", 0, "properties", "auto.offset.reset"), "${SECRET}"),
        (("clusters", 0, "properties"), {"security.protocol": "ssl", "ssl.key.pem": SECRET}),
        (("clusters", 0, "properties", "sasl.password"), [SECRET]),
        (("clusters", 0, "properties"), {"x": {"sasl.password": SECRET}}),
        (("clusters", 0, "properties"), "${SECRET}"),
        (("clusters", 0), ["${SECRET}"]),
        (("clusters", 0, "name"), "a ${SECRET}"),
        (("clusters", 1, "name"), "${SECRET}"),
        (("clusters",), "${SECRET}"),
        (("budget",), "${SECRET}"),
        (("process_id",), "${SECRET} ${UNSET}"),
        (("${SECRET}",), 1),
        (("virtual_clusters", 0, "listen"), "${SECRET}:${SECRET}"),
        (("virtual_clusters", 0, "target", "pool", "start"), "${SECRET}"),
        (("virtual_clusters", 0, "target", "pool", "topics", 1, "cluster"), "${SECRET}"),
    ],
)
def test_mistakes(tmp_path: Path, path: tuple[str | int, ...], value: object) -> None:
    tree: Any = small()
    tree["clusters"][0]["properties"] = {"client.id": "x"}
    inner = tree
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    said = mistakes(tmp_path, tree, {"SECRET": SECRET})
    assert said
    assert SECRET not in "\n".join(said)
