"""Links: the mesh's own connections to brokers, which carry any request to any node (decision 0026)."""
