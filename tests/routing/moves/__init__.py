"""Moves of topics: the pure part."""
