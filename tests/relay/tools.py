"""Kafka's command-line tools in one Java process, and their output in a form for comparison."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.clients.building import java_classes
from tests.integration.jars import kafka_jars
from tests.integration.java import java

_TOOLS: Final = "org.apache.kafka.tools."
_SILENT: Final = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=off",)
_BLANKS: Final = (
    (re.compile(r"TopicId: \S+"), "TopicId: ID"),
    # Before times: the digits of a throughput may look like one.
    (re.compile(r'"(avg|target)_throughput":[\d.E-]+'), r'"\1_throughput":N'),
    (re.compile(r"\b1[78]\d{11}\b"), "TIME"),
    (re.compile(r"[\w.-]+-[\w-]{22}\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.:,]\d+"), "TIME"),
    (re.compile(r"[ \t]+"), " "),
    # A member of the consumer protocol may be assigned nothing at first, on a broker as well.
    (re.compile(r'^\{"timestamp":TIME,"name":"partitions_(assigned|revoked)","partitions":\[\]\}$', re.M), ""),
)
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?")


class JavaTools:
    """The Java process. It runs one command after the other."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        with self._log.open("ab") as errors:
            return subprocess.Popen(
                java(kafka_jars(), "Tools", classes=java_classes(), options=_SILENT),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def run(self, tool: str, *arguments: str) -> tuple[int, str]:
        """Runs a tool; returns its exit code and its whole output. tool: the class, without Kafka's package of
        tools."""
        assert self._process.stdin is not None and self._process.stdout is not None
        name = tool if tool.startswith("kafka.") else _TOOLS + tool
        self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:  # some tools end with it
            code, self._process = self._process.wait(), self._started()
            return code, ""
        answer = json.loads(line)
        return answer["exit"], answer["output"]

    def run_alone(self, tool: str, *arguments: str) -> tuple[int, str]:
        """The same in a separate process: for a tool that goes on after the end of its task."""
        command = java(kafka_jars(), _TOOLS + tool, *arguments, options=_SILENT)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def comparable(output: str, names: Mapping[str, str], *, has_numbers: bool) -> Sequence[str]:
    """Its lines, sorted, without times and ids. names: replacements for names and addresses. has_numbers: the output
    has numbers that depend on time or on the state of the cluster; they are left out."""
    for name, other in sorted(names.items(), key=lambda each: -len(each[0])):
        output = output.replace(name, other)
    for pattern, blank in _BLANKS:
        output = pattern.sub(blank, output)
    if has_numbers:
        output = _NUMBER.sub("N", output)
    return sorted(line.strip() for line in output.splitlines() if line.strip())
