"""Kafka's command-line tools in one Java process, and what they write in the form in which it is compared."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.clients.building import java_classes
from tests.integration.jars import kafka_jars

_TOOLS: Final = "org.apache.kafka.tools."
_JAVA: Final = (
    *("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
)
_BLANKS: Final = (
    (re.compile(r"TopicId: \S+"), "TopicId: ID"),
    (re.compile(r"\b1[78]\d{11}\b"), "TIME"),
    (re.compile(r'"(avg|target)_throughput":[\d.E-]+'), r'"\1_throughput":N'),
    (re.compile(r"[\w.-]+-[\w-]{22}\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.:,]\d+"), "TIME"),
    (re.compile(r"[ \t]+"), " "),
)
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?")


class JavaTools:
    """The process. It takes one command after the other."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        with self._log.open("ab") as errors:
            return subprocess.Popen(
                [*_JAVA, "-cp", f"{java_classes()}:{kafka_jars()}/*", "Tools"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def run(self, tool: str, *arguments: str) -> tuple[int, str]:
        """Its exit code and all it wrote. tool: the class, from Kafka's package of tools on."""
        assert self._process.stdin is not None and self._process.stdout is not None
        name = tool if tool.startswith("kafka.") else _TOOLS + tool
        self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:  # some tools end it, with nothing more to say
            code, self._process = self._process.wait(), self._started()
            return code, ""
        answer = json.loads(line)
        return answer["exit"], answer["output"]

    def run_alone(self, tool: str, *arguments: str) -> tuple[int, str]:
        """The same in a process of its own: for one that goes on behind the end of what it was asked to do."""
        command = [*_JAVA, "-cp", f"{kafka_jars()}/*", _TOOLS + tool, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def comparable(output: str, names: Mapping[str, str], *, has_numbers: bool) -> Sequence[str]:
    """Its lines, sorted, without times and ids. names: what to write in place of names and addresses. has_numbers: that
    say how long something took, or how far the cluster is; they are left out."""
    for name, other in sorted(names.items(), key=lambda each: -len(each[0])):
        output = output.replace(name, other)
    for pattern, blank in _BLANKS:
        output = pattern.sub(blank, output)
    if has_numbers:
        output = _NUMBER.sub("N", output)
    return sorted(line.strip() for line in output.splitlines() if line.strip())
