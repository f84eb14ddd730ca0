"""Where a partition begins to be read: committed offsets, bounds and ends of logs, and logs that begin again."""
