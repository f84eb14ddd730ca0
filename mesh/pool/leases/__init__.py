"""Range leases: spans that batch readers such as Spark hold, instead of members, and acknowledge as a whole
(docs/spark.md)."""
