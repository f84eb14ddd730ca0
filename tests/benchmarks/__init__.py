"""The benchmarks work, and what a unit of work costs does not grow; nothing here is timed."""
