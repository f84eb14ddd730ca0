"""Upstream groups: their members and owners of partitions, fencing, and whether their coordinator can be reached."""
