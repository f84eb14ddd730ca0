"""What the process tells of itself: logs, metrics, upstream health, the journal."""
