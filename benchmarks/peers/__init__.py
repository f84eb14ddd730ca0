"""What kafka-mesh is compared with beside direct consumption: a relay without a brain, and another proxy for Kafka.

Both are built when they are first needed, into .cache/bench, by the text they are built from.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.integration.building import built_once

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "bench"
KROXYLICIOUS = "0.12.0"
"""The newest version on Maven Central with its dependencies."""

_POM = f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafka-mesh</groupId><artifactId>peers</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>io.kroxylicious</groupId><artifactId>kroxylicious-runtime</artifactId><version>{KROXYLICIOUS}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>2.0.17</version>
    </dependency>
  </dependencies>
</project>
"""


def relay_command(port: int, target: int) -> tuple[str, list[str | Path]]:
    """The name and command line of a TCP relay: Go's, which splices; uvloop's without Go."""
    if shutil.which("go") is None:
        return "uvloop", [sys.executable, "-m", "benchmarks.relay", str(port), str(target)]

    def build(folder: Path) -> None:
        _run("go", "build", "-o", folder / "relay", HERE / "relay.go")

    program = _built("relay", (HERE / "relay.go").read_text(), build) / "relay"
    return "Go, splice", [program, str(port), str(target)]


def kroxylicious_command(folder: Path, port: int, bootstrap_servers: str) -> list[str | Path]:
    """The command line of Kroxylicious without a filter: on `port` and the three above it, in front of one cluster.

    Raises RuntimeError when it cannot be built.
    """

    def build(into: Path) -> None:
        (into / "pom.xml").write_text(_POM)
        jars = into / "jars"
        copy = ("dependency:copy-dependencies", f"-DoutputDirectory={jars}", "-DincludeScope=runtime")
        _run("mvn", "-q", "-B", "-f", into / "pom.xml", *copy)
        _run("javac", "-cp", f"{jars}/*", "-d", into / "classes", HERE / "Proxy.java")

    built = _built("kroxylicious", _POM + (HERE / "Proxy.java").read_text(), build)
    gateway = {"name": "default", "portIdentifiesNode": {"bootstrapAddress": f"127.0.0.1:{port}"}}
    cluster = {
        "name": "bench",
        "targetCluster": {"bootstrapServers": bootstrap_servers},
        "gateways": [gateway],
        "logNetwork": False,
        "logFrames": False,
    }
    file = folder / f"kroxylicious-{port}.yaml"
    file.write_text(yaml.safe_dump({"virtualClusters": [cluster]}))
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", "-Xmx512m", quiet, "-cp", f"{built / 'classes'}:{built / 'jars'}/*", "Proxy", file]


def _built(name: str, text: str, build: Callable[[Path], None]) -> Path:
    return built_once(CACHE / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}", build)


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
