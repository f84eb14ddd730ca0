"""A Fetch from its arrival to its response."""
