"""Spark starts several Python processes for each query, and gives each ten seconds: their imports must be fast."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_the_driver_imports_nothing_of_the_mesh() -> None:
    pytest.importorskip("pyspark", reason="Spark is an extra: pip install 'kafka-mesh[spark]'")
    ask = "import sys, pyspark_kafka_mesh.source; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=150, check=True)
    assert not {"mesh", "kio", "confluent_kafka", "hypothesis"} & set(done.stdout.split())
