"""The runtime of routers that decide by names: clients' connections, each to a node of a leaf, and requests for several
leaves."""
