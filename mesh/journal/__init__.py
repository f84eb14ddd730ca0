"""The delivery journal as bytes, as docs/journal.md describes it. No IO, and nothing of a running mesh."""
