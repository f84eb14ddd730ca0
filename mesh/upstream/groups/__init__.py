"""Upstream groups: their members and partition owners, fencing, and whether their coordinator can be reached."""
