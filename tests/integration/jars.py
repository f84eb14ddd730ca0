"""Apache Kafka's jars, copied from Maven's repository once into a cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.integration.building import built_once

KAFKA_VERSION = "4.3.1"

_POM = f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafka-mesh</groupId><artifactId>brokers</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


def missing_programs() -> list[str]:
    """What a broker needs and is not on the PATH."""
    return [program for program in ("java", "mvn") if shutil.which(program) is None]


def kafka_jars() -> Path:
    """The folder with the jars of broker and tools; filled by Maven the first time.

    KAFKA_MESH_CACHE moves it out of the repository's .cache/kafka.
    """
    cache = Path(os.environ.get("KAFKA_MESH_CACHE") or Path(__file__).parents[2] / ".cache" / "kafka")
    return built_once(cache / KAFKA_VERSION, _fetch)


def _fetch(folder: Path) -> None:
    pom = folder / "pom.xml"
    pom.write_text(_POM)
    copy = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime")
    done = subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *copy], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"Maven could not fetch Apache Kafka {KAFKA_VERSION}:\n{done.stdout}{done.stderr}")
    pom.unlink()


def main() -> None:
    """`python -m tests.integration.jars`: before several test processes want them at once, and Maven for each."""
    if missing := missing_programs():
        print(f"no real brokers: {', '.join(missing)} not found")
    else:
        kafka_jars()


if __name__ == "__main__":
    main()
