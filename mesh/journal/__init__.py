"""The delivery journal as bytes: what docs/journal.md describes. No IO, and nothing of a running mesh."""
