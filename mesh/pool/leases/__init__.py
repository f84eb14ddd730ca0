"""Ranges of offsets for batch readers such as Spark, which acknowledge them as a whole."""
