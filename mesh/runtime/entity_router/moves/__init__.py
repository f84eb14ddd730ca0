"""Moves of topics between the leaves of a router: topics are copied and cut over, and the store keeps the state."""
