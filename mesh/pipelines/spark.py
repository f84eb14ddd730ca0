"""The Spark session of a job that was started by itself."""

from __future__ import annotations

import os
import sys
from typing import Any


def session(name: str) -> Any:
    """That of spark-submit, or a local one on all cores."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # its workers need what is installed here
    builder: Any = SparkSession.builder
    return builder.appName(name).config("spark.ui.showConsoleProgress", "false").getOrCreate()
