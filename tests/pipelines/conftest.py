"""The Spark session that all tests share."""

from tests.spark.conftest import spark as spark
