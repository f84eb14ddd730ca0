"""The Spark session of a job that runs by itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any


def session(name: str, settings: Mapping[str, str] | None = None) -> Any:
    """Returns the session of spark-submit, or a local one on all cores. settings: Spark's settings for a new
    session."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's workers need the packages installed here
    builder: Any = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
