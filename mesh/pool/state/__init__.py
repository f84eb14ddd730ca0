"""What a pool knows of its members and partitions, and the ledgers and windows of both."""
