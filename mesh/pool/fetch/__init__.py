"""A Fetch from its arrival to its response: `serving` takes it up, `distribution.parked_fetches` keeps it, `responses`
answers it."""
