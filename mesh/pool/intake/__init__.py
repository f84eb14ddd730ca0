"""What comes from the upstream clusters: assignments and records, the memory that they may use, stalls, truncation; and
how a pool, or one cluster of it, is drained."""
