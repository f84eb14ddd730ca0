from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration import memory_folders
from tests.integration.memory_folders import make_folder


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(memory_folders, "_MEMORY", memory)
    memory_folders._root.cache_clear()
    return memory


def test_a_folder_is_in_memory(memory: Path, tmp_path: Path) -> None:
    for name in ("logs", "more"):
        make_folder(tmp_path / name)
        (tmp_path / name / "file").write_text(name)
    assert sorted(each.read_text() for each in memory.rglob("file")) == ["logs", "more"]
    memory_folders._root.cache_clear()


@pytest.mark.parametrize("reason", ["little memory", "no pytest", "no such folder"])
def test_without_it_the_folder_is_on_disk(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    if reason == "little memory":
        monkeypatch.setattr(memory_folders, "_ENOUGH", shutil.disk_usage(memory).total + 1)
    elif reason == "no pytest":
        monkeypatch.delenv("PYTEST_VERSION")
    else:
        memory.rmdir()
    make_folder(tmp_path / "logs")
    assert (tmp_path / "logs").is_dir()
    assert not (tmp_path / "logs").is_symlink()


def test_folders_of_ended_processes_go(memory: Path, tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, running = memory / f"kafka-mesh-tests-{ended.pid}", memory / "kafka-mesh-tests-1"
    left.mkdir()
    running.mkdir()
    make_folder(tmp_path / "logs")
    assert not left.exists()
    assert running.exists()
    memory_folders._root.cache_clear()


def test_a_process_takes_its_folders_with_it(tmp_path: Path) -> None:
    """Also if pytest's processes end: xdist's workers run what is registered for the end."""
    file = tmp_path / "test_one.py"
    file.write_text(
        "from tests.integration.memory_folders import make_folder\n"
        "def test_it(tmp_path):\n"
        "    make_folder(tmp_path / 'logs')\n"
        f"    open({str(tmp_path / 'told')!r}, 'w').write(str((tmp_path / 'logs').resolve()))\n"
        "    assert (tmp_path / 'logs').is_symlink()\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, cwd=root, timeout=120)
    assert done.returncode == 0, done.stdout
    assert not Path((tmp_path / "told").read_text()).exists()
