"""The wheel and the image, built and used away from the source.

No container engine is needed: the test runs the Dockerfile's own instructions, on a folder in place of its root. The
process runs where it can write nothing, in its own mount namespace.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.integration.processes import ChildProcess, eventually, free_port

pytestmark = pytest.mark.long
SOURCE: Final = Path(__file__).parents[1]
CLEAN: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


@dataclass
class Stage:
    """One FROM of a Dockerfile, carried out on a folder in place of its root."""

    root: Path
    workdir: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "0"
    healthcheck: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    stop_signal: str = "SIGTERM"

    def here(self, path: str) -> Path:
        return self.root / os.path.join(self.workdir, path).lstrip("/")

    def set(self, assignments: str) -> None:
        for assignment in shlex.split(assignments):
            name, _, value = assignment.partition("=")
            self.environment[name] = self.translated(value).replace("$PATH", CLEAN["PATH"])

    def translated(self, text: str) -> str:
        """Paths of the image, translated to this machine."""
        return re.sub(r"(?<![\w./])/(?=opt/|source\b)", f"{self.root}/", text)


class Image:
    """What `docker build` would make of the Dockerfile, as far as these tests need it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stages: dict[str, Stage] = {}
        text = re.sub(r"\\\n\s*", "", (SOURCE / "Dockerfile").read_text())
        for line in (line for line in text.splitlines() if line and not line.startswith("#")):
            instruction, _, rest = line.partition(" ")
            self._carry_out(instruction, rest)
        self.final = list(self._stages.values())[-1]

    def _carry_out(self, instruction: str, rest: str) -> None:
        if instruction == "FROM":
            self._begin(rest)
            return
        stage = list(self._stages.values())[-1]
        match instruction:
            case "WORKDIR":
                stage.workdir = rest
                stage.here("").mkdir(parents=True, exist_ok=True)
            case "COPY":
                self._copy(stage, rest)
            case "RUN" if rest.startswith("useradd"):
                pass  # Users are those of the machine.
            case "RUN":
                subprocess.run(
                    ["sh", "-ec", stage.translated(rest)], check=True, cwd=stage.here(""), env=self._python()
                )
            case "ENV":
                stage.set(rest)
            case "USER":
                stage.user = rest
            case "HEALTHCHECK":
                stage.healthcheck = json.loads(rest[rest.index("CMD") + 3 :])
            case "STOPSIGNAL":
                stage.stop_signal = rest
            case "ENTRYPOINT":
                stage.entrypoint = json.loads(rest)
            case "CMD":
                stage.command = json.loads(rest)
            case _:
                raise AssertionError(f"these tests do not know {instruction}")

    def _begin(self, rest: str) -> None:
        base, _, name = rest.partition(" AS ")
        assert base == "python:3.11-slim"
        # All stages have one root: a virtual environment knows its own path.
        self._stages[name or "final"] = Stage(self._folder / "root")

    def _copy(self, stage: Stage, rest: str) -> None:
        *sources, target = rest.split()
        if sources[0].startswith("--from="):
            assert stage.here(sources[1].lstrip("/")) == stage.here(target.lstrip("/")), "all stages have one root here"
            return
        allowed = {line[1:] for line in (SOURCE / ".dockerignore").read_text().splitlines() if line.startswith("!")}
        for source in sources:
            assert source in allowed, f".dockerignore keeps {source} from the build"
            place = stage.here(target) / source if target.endswith("/") else stage.here(target)
            if (SOURCE / source).is_dir():
                shutil.copytree(SOURCE / source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(SOURCE / source, place)

    def _python(self) -> dict[str, str]:
        folder = self._folder / "bin"
        folder.mkdir(exist_ok=True)
        if not (folder / "python").exists():
            (folder / "python").symlink_to(sys.base_prefix + "/bin/python3.11")
        return {**CLEAN, "PATH": f"{folder}:{CLEAN['PATH']}", "HOME": str(self._folder)}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("image")
    yield Image(folder)
    shutil.rmtree(folder)


def test_the_wheel_runs_the_demo_in_a_clean_environment(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, SOURCE], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    binaries = tmp_path / "clean/bin"
    # To compile all files, most of which are never read, takes longer than all else.
    install: list[str | Path] = [binaries / "pip", "install", "--quiet", "--no-compile"]
    subprocess.run([*install, "--constraint", SOURCE / "requirements.lock", wheel], check=True)
    done = subprocess.run(
        [binaries / "kafka-mesh", "demo", "--duration", "5"],
        cwd=tmp_path,
        env={**CLEAN, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every record was delivered exactly once, unaltered" in done.stdout


def test_the_image_holds_nothing_but_what_runs(image: Image) -> None:
    installed = {path.name.split("-")[0].lower() for path in image.final.root.rglob("*.dist-info")}
    assert {"kafka_mesh", "confluent_kafka", "uvloop"} <= installed
    assert not installed & {"pip", "pytest", "mypy", "hypothesis", "pyspark", "matplotlib"}
    size = sum(path.stat().st_size for path in image.final.root.rglob("*") if path.is_file())
    assert size < 150 << 20, f"{size >> 20} MiB"


def test_the_image_runs_on_a_read_only_file_system(image: Image, tmp_path: Path) -> None:
    admin, port, coordinator = free_port(), free_port(), free_port()
    file = tmp_path / "mesh.yaml"
    file.write_text(
        f"admin: {{listen: 127.0.0.1:{admin}}}\n"
        "clusters: [{name: eu, bootstrap_servers: 127.0.0.1:1}]\n"
        f"virtual_clusters:\n  - {{name: orders, listen: 127.0.0.1:{port}, coordinator: 127.0.0.1:{coordinator},\n"
        "     target: {pool: {topics: [{prefix: '', cluster: eu}], groups: ['*'], start: earliest}}}\n"
    )
    final = image.final
    assert final.user.isdigit()
    assert final.user != "0"
    given = [str(file) if part.startswith("/etc/kafka-mesh/") else part for part in final.command]
    health = f"http://127.0.0.1:{admin}/healthz"
    environment = {**CLEAN, **final.environment, "KAFKA_MESH_HEALTH": health}
    exactly = ["env", "-i", *(f"{name}={value}" for name, value in environment.items())]
    read_only = 'mount -o remount,bind,ro / && ! touch "$0" 2>/dev/null && exec "$@"'
    process = ChildProcess(
        [
            *("unshare", "--map-root-user", "--mount", *exactly, "sh", "-c", read_only, str(tmp_path / "written")),
            *(*final.entrypoint, *given),
        ],
        log=tmp_path / "log",
    )

    def is_healthy() -> bool:
        return subprocess.run([*exactly, *final.healthcheck], capture_output=True).returncode == 0

    try:
        eventually("it is healthy", is_healthy)
        process.signal(signal.Signals[final.stop_signal])
        assert process.wait(30) == 0, process.log_tail()
    finally:
        process.kill()
    assert not is_healthy()
