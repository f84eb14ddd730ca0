"""A local Spark session for the tests: `SparkSession` and a landing query, also as a separate process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mesh.pipelines.landing import ATTEMPTS, SLOW_START

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.fileSink.log.compactInterval": "3",
}


def start_session(master: str = "local[2,4]") -> Any:
    """Tasks are tried four times."""
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def land(spark: Any, options: Mapping[str, str], folder: Path) -> Any:
    """The writer of a stream of kafka-mesh into Parquet; give it a trigger and start it."""
    stream = spark.readStream.format("kafka-mesh").options(**options).load()
    return (
        stream.writeStream.format("parquet")
        .option("path", str(folder / "table"))
        .option("checkpointLocation", str(folder / "checkpoint"))
    )


def landed_so_far(query: Any) -> int:
    """Records of the batches that are done, as Spark counts them."""
    if (problem := query.exception()) is not None:
        raise problem
    return sum(progress["sources"][0]["numInputRows"] for progress in query.recentProgress)


def finish(start: Callable[[], Any], seconds: float = 240) -> Any:
    """Waits for the query of `start` to end by itself; starts it again if Spark did not wait long enough for a Python
    process."""
    for attempt in range(ATTEMPTS):
        query = start()
        try:
            assert query.awaitTermination(seconds), f"not within {seconds:g} s: {query.status}, {query.lastProgress}"
        except Exception as problem:
            if attempt == ATTEMPTS - 1 or SLOW_START not in str(problem):
                raise
        else:
            return query
    return None
