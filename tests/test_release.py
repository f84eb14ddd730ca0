"""The artifacts of `make release` are complete, and users can verify them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import release
from tests.release import Mistake, check_source, check_wheel, make, pack_chart, version, write_sums

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("release") / "dist"
    make(made)
    return made


def test_everything_is_there(folder: Path) -> None:
    assert {each.name for each in folder.iterdir()} == {
        "SHA256SUMS",
        f"kafka-mesh-{version()}.cdx.json",
        f"kafka-mesh-{version()}.tgz",
        f"kafka_mesh-{version()}-py3-none-any.whl",
        f"kafka_mesh-{version()}.tar.gz",
    }


def test_the_sums_prove_the_rest(folder: Path) -> None:
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(command, cwd=folder, capture_output=True).returncode == 0


def test_no_file_names_the_machine_it_was_made_on(folder: Path) -> None:
    text = (folder / f"kafka-mesh-{version()}.cdx.json").read_text()
    assert str(Path.home()) not in text
    assert "file:" not in text


def test_what_lacks_something_is_not_published(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wheel,) = folder.glob("*.whl")
    with pytest.raises(Mistake, match="has no LICENSE"):
        check_source(pack_chart(tmp_path))
    monkeypatch.setattr(release, "version", lambda: "9.9")
    with pytest.raises(Mistake, match=r"this is 9\.9"):
        pack_chart(tmp_path)
    with pytest.raises(Mistake, match=r"kafka_mesh-9\.9\.dist-info"):
        check_wheel(wheel)


def test_a_changed_file_is_seen(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "kafka-mesh.whl"
    file.write_bytes(b"one")
    write_sums(tmp_path)
    file.write_bytes(b"two")
    assert subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True).returncode != 0
