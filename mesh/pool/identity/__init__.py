"""Finds the member of a request: by its connection, its offsets or a guess. Also handles the requests of the group
APIs, unidentified Fetches, and tools."""
