"""Consumers in other languages are built once into the repository's .cache/clients, in a folder for each version of
their source."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.integration.building import built_once
from tests.integration.jars import KAFKA_VERSION, NEWEST_CLIENTS, STREAMS, kafka_jars, missing_programs

SOURCES = Path(__file__).parent
_CACHE = SOURCES.parents[1] / ".cache" / "clients"


def java_classes() -> Path:
    """The folder with the classes of Member.java and its neighbours."""
    return _java_classes("java", KAFKA_VERSION)


def streams_classes() -> Path:
    """The same for the application of Kafka Streams."""
    return _java_classes("streams", STREAMS)


def topology_classes() -> Path:
    """The same for the members of streams groups that push descriptions, and for the program that reads them."""
    return _java_classes("topologies", NEWEST_CLIENTS)


def _java_classes(sources: str, jars: str) -> Path:
    def compile_into(folder: Path) -> None:
        _run("javac", "-cp", f"{kafka_jars(jars)}/*", "-d", folder, *sorted((SOURCES / sources).glob("*.java")))

    _require("javac", "the Java client needs a JDK")
    if missing := missing_programs():
        pytest.skip(f"the Java client needs Kafka's jars; not found: {', '.join(missing)}")
    return _built(sources, compile_into)


def node_program(name: str) -> Path:
    """The program `name` beside its installed packages, in the versions of package-lock.json."""

    def install_into(folder: Path) -> None:
        shutil.copytree(SOURCES / "node", folder, dirs_exist_ok=True)
        _run("npm", "ci", "--silent", "--ignore-scripts", cwd=folder)

    _require("npm", "kafkajs and @platformatic/kafka need Node.js and npm")
    return _built("node", install_into) / name


def go_program(name: str) -> Path:
    """The consumer in the folder `name` of go/."""

    def build_into(folder: Path) -> None:
        _run("go", "build", "-o", f"{folder}/", "./...", cwd=SOURCES / "go")

    _require("go", "franz-go, sarama and kafka-go need Go")
    return _built("go", build_into) / name


def _require(program: str, why: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{why}; not found: {program}")


def _built(language: str, build: Callable[[Path], None]) -> Path:
    texts = sorted(path for path in (SOURCES / language).rglob("*") if path.is_file())
    content = b"".join(bytes(path.relative_to(SOURCES)) + path.read_bytes() for path in texts)
    return built_once(_CACHE / f"{language}-{hashlib.sha256(content).hexdigest()[:12]}", build)


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    arguments: Sequence[str] = [str(part) for part in command]
    done = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}:\n{done.stdout}{done.stderr}")


def main() -> None:
    """`python -m tests.clients.building`: builds all of them, before several test processes need them at once."""
    for build in (java_classes, streams_classes, lambda: node_program(""), lambda: go_program("")):
        try:
            build()
        except pytest.skip.Exception as missing:
            print(missing.msg)  # its tests say so too


if __name__ == "__main__":
    main()
