"""The Spark data source `kafka-mesh`. Spark finds and registers it by the prefix of this package's name."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    # Options and offsets are of use, and tested, also where Spark is not installed.
    if name == "DefaultSource":
        from pyspark_kafka_mesh.source import KafkaMeshSource

        return KafkaMeshSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
