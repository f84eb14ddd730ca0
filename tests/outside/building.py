"""The programs: kgo's tests are built from its Go module, in the version of go/go.mod; librdkafka's by a user who has
its sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.integration.building import built_once

SOURCES: Final = Path(__file__).parent
_CACHE: Final = SOURCES.parents[1] / ".cache" / "outside"
LIBRDKAFKA: Final = "KAFKA_MESH_LIBRDKAFKA"
"""The variable with the folder of librdkafka's sources, with its tests built (`tests/test-runner`)."""
_KGO: Final = "github.com/twmb/franz-go"


def kgo_version() -> str:
    """The version of franz-go."""
    found = re.search(rf"^require {re.escape(_KGO)} v(\S+)$", (SOURCES / "go" / "go.mod").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def kgo_tests() -> Path:
    """The program with kgo's own tests, built once for each version."""

    def build_into(folder: Path) -> None:
        command = ["go", "test", "-c", "-o", str(folder / "kgo.test"), f"{_KGO}/pkg/kgo"]
        done = subprocess.run(command, cwd=SOURCES / "go", capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")

    if shutil.which("go") is None:
        pytest.skip("kgo's tests need Go")
    return built_once(_CACHE / f"kgo-{kgo_version()}", build_into) / "kgo.test"


def librdkafka_sources() -> Path:
    """The folder with librdkafka's sources and its tests, built."""
    folder = os.environ.get(LIBRDKAFKA)
    if not folder:
        pytest.skip(f"{LIBRDKAFKA} names no folder with librdkafka's sources and its tests, built")
    sources = Path(folder).absolute()
    assert (sources / "tests" / "test-runner").is_file(), f"{sources} has no tests/test-runner"
    return sources
