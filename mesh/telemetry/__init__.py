"""What the process tells of itself: logs, metrics, the health of upstream clusters, the journal."""
