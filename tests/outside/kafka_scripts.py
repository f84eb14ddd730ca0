"""Kafka's shell scripts, for programs that start them: each runs the class of its name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.integration.kafka import KafkaCluster

_CLASSES: Final[Mapping[str, str]] = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
}


def write_scripts(cluster: KafkaCluster, folder: Path) -> Path:
    """Writes them into `bin` of that folder, and returns it. cluster: the one whose jars they run."""
    scripts = folder / "bin"
    scripts.mkdir(parents=True)
    for name, class_name in _CLASSES.items():
        script = scripts / f"{name}.sh"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(cluster.java(class_name))} "$@"\n')
        script.chmod(0o755)
    return folder
