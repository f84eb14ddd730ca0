"""The examples of docs/interceptors.md and docs/own-interceptors.md work as they are; the interceptor of the page is in
its own wheel."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import yaml

from mesh.config import load
from mesh.interceptors.shipped import SHIPPED
from mesh.interceptors.types import class_of
from tests.documents import blocks
from tests.wheels import installed, wheel

PAGES = ("docs/interceptors.md", "docs/own-interceptors.md")


def shown(language: str, holding: str) -> str:
    """The one block with this text."""
    every = (each for page in PAGES for each in blocks(page))
    (found,) = (each.text for each in every if each.language == language and holding in each.text)
    return found


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = wheel(tmp_path, shown("toml", "entry-points"), "shout", shown("python", "class Shout"))
    site = installed(tmp_path, made)
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()


@pytest.mark.usefixtures("_installed")
def test_the_interceptor_and_its_test() -> None:
    assert class_of("shout").__name__ == "Shout"
    there: dict[str, object] = {}
    exec(shown("python", "def test_shout"), there)
    test = there["test_shout"]
    assert callable(test)
    test()


def test_the_configuration_loads(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(shown("yaml", "only-eu"))
    config = load(file)
    assert [each.name for each in config.interceptors] == ["cards", "only-eu", "small"]
    assert load_again(tmp_path, config.redacted()) == config


def load_again(folder: Path, redacted: object) -> object:
    file = folder / "again.yaml"
    file.write_text(yaml.safe_dump(redacted))
    return load(file)


def test_what_ships_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \| ([A-Z]+) \|", Path(PAGES[0]).read_text(), re.MULTILINE)
    assert {name: (reads, effect) for name, _, reads, effect in rows} == {
        name: (kind.reads.name.lower(), kind.effect.name) for name, kind in SHIPPED.items()
    }
    for name, on, _, _ in rows:
        assert {side.value for side in SHIPPED[name].on} == ({"produce", "fetch"} if on == "both" else {on})
