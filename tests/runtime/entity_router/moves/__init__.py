"""Moves of topics in the runtime."""
