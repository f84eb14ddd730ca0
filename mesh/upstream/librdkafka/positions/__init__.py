"""The positions from which partitions are read: committed offsets, bounds and ends of logs, and logs that start
again."""
