"""Which parked Fetch has which records next, and how many of them."""
