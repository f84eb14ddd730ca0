"""Archives of the classes that brokers, tools and clients load: `python -m tests.integration.class_archive`."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

from tests.integration.building import built_once
from tests.integration.jars import KAFKA_VERSION, kafka_jars, missing_programs
from tests.integration.java import archive_of
from tests.integration.kafka import KafkaCluster

TOPIC: Final = "classes"
TEN: Final = ("--max-messages", "10")
TOOLS: Final[Sequence[tuple[str, ...]]] = (
    ("VerifiableProducer", "--topic", TOPIC, *TEN),
    *[
        ("VerifiableConsumer", "--topic", TOPIC, "--group-id", protocol, "--group-protocol", protocol, *TEN)
        for protocol in ("classic", "consumer")
    ],
    ("consumer.group.ConsumerGroupCommand", "--list"),
)


class _RecordedCluster(KafkaCluster):
    """A broker that writes down the classes that it and its tools load."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self._recordings = folder / "recordings"
        self._recordings.mkdir()
        self._number = count()
        super().__init__("recorded", jars, folder / "broker")

    def _java_options(self) -> Sequence[str]:
        recording = self._recordings / f"{next(self._number)}.classes"
        return (*super()._java_options(), f"-XX:DumpLoadedClassList={recording}")

    @property
    def recorded(self) -> str:
        """The lists of all processes as one."""
        lines = (line for file in self._recordings.iterdir() for line in file.read_text().splitlines())
        return "\n".join(dict.fromkeys(line for line in lines if not line.startswith("#")))


def class_archive(version: str = KAFKA_VERSION) -> Path:
    """The archive of a version's classes; made the first time."""
    jars = kafka_jars(version)
    archive = archive_of(jars)
    built_once(archive.parent, lambda folder: _make(jars, folder / archive.name))
    return archive


def _make(jars: Path, archive: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cluster = _RecordedCluster(jars, Path(folder))
        try:
            cluster.create_topic(TOPIC, 1)
            for tool, *arguments in TOOLS:
                cluster.run_tool(
                    f"org.apache.kafka.tools.{tool}", "--bootstrap-server", cluster.bootstrap_servers, *arguments
                )
            cluster.stop()
        finally:
            cluster.kill()
        listed = Path(folder, "classes")
        listed.write_text(cluster.recorded)
        dumping = ("-Xshare:dump", f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={archive}")
        done = subprocess.run(["java", *dumping, "-cp", f"{jars}/*"], capture_output=True, text=True, timeout=300)
    if done.returncode or not archive.exists():
        raise RuntimeError(f"no archive of classes was made:\n{done.stdout}{done.stderr}")


def main() -> None:
    """Before several test processes start brokers."""
    if not missing_programs():
        class_archive()


if __name__ == "__main__":
    main()
