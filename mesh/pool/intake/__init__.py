"""The intake from the upstream clusters: assignments, records, backpressure, stalls and truncation. Also the drain of a
pool, or of one cluster of it."""
