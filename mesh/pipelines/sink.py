"""Spark's sink for Parquet files, called for one batch.

A query with `format("parquet")` calls it by itself, and asks nobody before. The class is internal to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def add_batch(frame: DataFrame, batch: int, folder: str, partitions: Sequence[str], options: Mapping[str, str]) -> None:
    """Writes the rows of a batch as files of a table, and enters them in its log `_spark_metadata`. Does nothing if the
    log has the batch."""
    session: Any = frame.sparkSession
    jvm = session._jvm
    sql = jvm.org.apache.spark.sql.execution
    python = jvm.org.apache.spark.api.python.PythonUtils
    sink = sql.streaming.sinks.FileStreamSink(
        session._jsparkSession,
        folder,
        sql.datasources.parquet.ParquetFileFormat(),
        python.toSeq(list(partitions)),
        python.toScalaMap(dict(options)),
    )
    sink.addBatch(batch, frame._jdf)
