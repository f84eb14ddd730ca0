"""A router that chooses by connection, at work: each connection is led one way, to a union or to a pool."""
