"""The existing plugins."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from mesh.streams.spi import TopologyPlugin
from mesh.topology_plugins.http import HttpPlugin
from mesh.topology_plugins.types import ENTRY_POINTS, SHIPPED, UnknownPlugin, make_plugin, plugin_class
from tests.upstream.harness import run
from tests.upstream.store.memory import MemoryStore


def test_those_that_ship_are_made_with_their_options() -> None:
    async def test() -> None:
        options = {"http": {"url": "http://localhost/topologies"}}
        for name, kind in SHIPPED.items():
            assert type(make_plugin(name, options.get(name, {}), "front", MemoryStore())) is kind

    run(test)


@pytest.mark.parametrize("url", ["ftp://host/x", "http://host/", "host", "http://host/x?y", "http://host/a b"])
def test_a_url_has_to_be_one(url: str) -> None:
    with pytest.raises(ValidationError):
        HttpPlugin.options.model_validate({"url": url})


def test_a_name_that_nobody_has_is_refused() -> None:
    with pytest.raises(UnknownPlugin, match=f"^http, memory, store, or an entry point of {ENTRY_POINTS}: none"):
        plugin_class("git")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("from mesh.topology_plugins.memory import MemoryPlugin as Plugin", None),
        ("raise ImportError('no')", "can be loaded"),
        ("class Plugin: ...", "no class that extends TopologyPlugin"),
    ],
)
def test_those_of_other_packages_are_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str | None
) -> None:
    module = f"plugin_of_tests_{abs(hash(text))}"
    (tmp_path / f"{module}.py").write_text(text)
    info = tmp_path / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{module} = {module}:Plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    if reason is None:
        assert issubclass(plugin_class(module), TopologyPlugin)
    else:
        with pytest.raises(UnknownPlugin, match=reason):
            plugin_class(module)
