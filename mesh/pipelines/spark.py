"""The Spark session of a job that was started by itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any


def session(name: str, settings: Mapping[str, str] | None = None) -> Any:
    """That of spark-submit, or a local one on all cores. settings: Spark's, of a session that is new."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # its workers need what is installed here
    builder: Any = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
