"""The example files load as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mesh.config import Config, load
from mesh.config.base import Model

FOLDER = Path(__file__).parents[2] / "config"
VARIABLES = {"EU_USERNAME": "mesh-user", "EU_PASSWORD": "hunter2"} | dict.fromkeys(
    ("ADMIN_TOKEN", "BILLING_PASSWORD", "OPERATOR_PASSWORD", "SHOP_PASSWORD"), "hunter2-hunter2-hunter2"
)


@pytest.mark.parametrize(
    "file",
    sorted(file for folder in (".", "routers", "interceptors") for file in FOLDER.glob(f"{folder}/*.yaml")),
    ids=lambda file: file.name,
)
def test_it_loads(file: Path) -> None:
    config = load(file, VARIABLES)
    shown = yaml.safe_dump(config.redacted())
    assert "hunter2" not in shown
    assert "mesh-user" not in shown


def test_what_is_printed_is_a_configuration(tmp_path: Path) -> None:
    config = load(FOLDER / "full.yaml", {})
    file = tmp_path / "again.yaml"
    file.write_text(yaml.safe_dump(config.redacted()))
    assert load(file, {}) == config


OF_OTHERS = ("nodes", "listeners", "topology_descriptions", "moves")
"""Keys of a virtual cluster with another target than a pool."""


def test_the_full_one_has_every_key() -> None:
    config = load(FOLDER / "full.yaml", {})

    def missing(model: Model, path: str) -> set[str]:
        here = {f"{path}.{name}" for name in type(model).model_fields if name not in model.model_fields_set}
        for name in type(model).model_fields:
            value = getattr(model, name)
            for each in value[:1] if isinstance(value, tuple) else [value]:
                if isinstance(each, Model):
                    here |= missing(each, f"{path}.{name}")
        return here

    others = {f".{each}" for each in ("routers", *(f"virtual_clusters.{key}" for key in OF_OTHERS))}
    assert missing(config, "") == others, "which do not belong to a pool"


def test_orders() -> None:
    config: Config = load(FOLDER / "orders.yaml", {})
    assert str(config.virtual_clusters[0].coordinator) == "127.0.0.1:19093"
    assert [cluster.name for cluster in config.clusters] == ["eu", "us"]
