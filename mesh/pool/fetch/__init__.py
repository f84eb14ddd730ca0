"""A Fetch from its arrival to its response: parked in `serving`, answered by `responses`."""
