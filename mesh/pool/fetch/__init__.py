"""A Fetch from its arrival to its response. `serving` handles the request, `distribution.parked_fetches` keeps it while
it waits, and `responses` makes the response."""
