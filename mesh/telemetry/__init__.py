"""Telemetry of the process: logs, metrics, the health of upstream clusters, the journal."""
