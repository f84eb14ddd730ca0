"""Range leases: spans that batch readers such as Spark hold beside the members and acknowledge as a whole
(docs/spark.md)."""
