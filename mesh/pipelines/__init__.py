"""Jobs for Spark that read the mesh. They import pyspark, which comes with the extra `kafka-mesh[spark]`."""
