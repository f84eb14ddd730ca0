"""Apache Kafka's jars, copied from Maven's repository once into a cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.integration.building import built_once

KAFKA_VERSION = "4.3.1"
NEWEST_BROKERS = "4.4.0"
"""Its brokers are available, its tools are not."""
FIRST_OF_STREAMS = "4.2.2"
"""Brokers of the first version with the streams protocol for all."""
NEWEST_CLIENTS = "kafka-clients-4.4.0"
"""It has Kafka's messages, including those of brokers."""
STREAMS = f"kafka-streams-{KAFKA_VERSION}"

_ARTIFACTS: Mapping[str, tuple[str, ...]] = {
    KAFKA_VERSION: (
        f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
        f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    NEWEST_BROKERS: (f"org.apache.kafka:kafka_2.13:{NEWEST_BROKERS}", "org.slf4j:slf4j-simple:1.7.36"),
    FIRST_OF_STREAMS: (f"org.apache.kafka:kafka_2.13:{FIRST_OF_STREAMS}", "org.slf4j:slf4j-simple:1.7.36"),
    "3.9.1": ("org.apache.kafka:kafka_2.13:3.9.1", "org.slf4j:slf4j-reload4j:1.7.36"),
    "2.8.2": ("org.apache.kafka:kafka_2.13:2.8.2", "org.slf4j:slf4j-reload4j:1.7.36"),
    # Its ZooKeeper, 3.4.13, parses host names from a text whose form Java changed in 14.
    "2.0.1": (
        "org.apache.kafka:kafka_2.12:2.0.1",
        "org.apache.zookeeper:zookeeper:3.4.10",
        "org.slf4j:slf4j-reload4j:1.7.36",
    ),
    "1.1.1": ("org.apache.kafka:kafka_2.12:1.1.1", "org.slf4j:slf4j-reload4j:1.7.36"),
    # Java had these classes itself until 8.
    "0.11.0.3": ("org.apache.kafka:kafka_2.11:0.11.0.3", "javax.xml.bind:jaxb-api:2.3.1"),
    NEWEST_CLIENTS: ("org.apache.kafka:kafka-clients:4.4.0",),
    STREAMS: (f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36"),
}
"""The artifacts of a Kafka version for Maven: brokers, and their additional needs on Java 17."""

_NOT_OLD = (KAFKA_VERSION, NEWEST_BROKERS, FIRST_OF_STREAMS, NEWEST_CLIENTS, STREAMS)
OLD_VERSIONS = tuple(version for version in _ARTIFACTS if version not in _NOT_OLD)
"""Versions of brokers, newest first."""


def missing_programs() -> list[str]:
    """The programs that a broker needs and that are not on the PATH."""
    return [program for program in ("java", "mvn") if shutil.which(program) is None]


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """The folder with the jars of broker and tools, or of clients; filled by Maven the first time.

    KAFKA_MESH_CACHE moves it out of the repository's .cache/kafka.
    """
    cache = Path(os.environ.get("KAFKA_MESH_CACHE") or Path(__file__).parents[2] / ".cache" / "kafka")
    return built_once(cache / version, lambda folder: _fetch(version, folder))


def _fetch(version: str, folder: Path) -> None:
    pom = folder / "pom.xml"
    pom.write_text(_pom(_ARTIFACTS[version]))
    copy = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime")
    done = subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *copy], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"Maven could not fetch Apache Kafka {version}:\n{done.stdout}{done.stderr}")
    pom.unlink()


def _pom(artifacts: Iterable[str]) -> str:
    lines = []
    for artifact in artifacts:
        group, name, version = artifact.split(":")
        names = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        lines.append(f"<dependency>{names}</dependency>")
    return f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafka-mesh</groupId><artifactId>brokers</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{"".join(lines)}</dependencies>
</project>
"""


OF_GATE = (KAFKA_VERSION, NEWEST_CLIENTS, NEWEST_BROKERS)
"""The versions that `make test` needs."""


def main(arguments: Sequence[str]) -> None:
    """`python -m tests.integration.jars`: fetches the jars of `make test` before its tests run, so that none of them
    waits for the network. With `all`: the jars of all tests."""
    if missing := missing_programs():
        print(f"left out: tests on real brokers and with Kafka's own classes (not found: {', '.join(missing)})")
        return
    for version in _ARTIFACTS if "all" in arguments else OF_GATE:
        kafka_jars(version)


if __name__ == "__main__":
    main(sys.argv[1:])
