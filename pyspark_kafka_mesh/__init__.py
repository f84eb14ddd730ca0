"""The Spark data source `kafka-mesh`. Spark finds and registers it by the prefix of this package's name."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    # Imported on demand: options and offsets are also used, and tested, without Spark.
    if name == "DefaultSource":
        from pyspark_kafka_mesh.source import KafkaMeshSource

        return KafkaMeshSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
