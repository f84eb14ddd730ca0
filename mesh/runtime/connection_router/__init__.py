"""The runtime of a router that chooses a route for each connection. The route leads to a union, to a pool, or to a
router that answers each request."""
