"""A cluster that clients see as one node: the mesh divides requests among its brokers, and merges the responses."""
