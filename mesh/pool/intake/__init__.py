"""What comes from the upstream clusters: assignments, records, memory, and how it ends."""
