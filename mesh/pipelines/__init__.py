"""Spark jobs that read from the mesh. They import pyspark, which comes with the extra `kafka-mesh[spark]`."""
