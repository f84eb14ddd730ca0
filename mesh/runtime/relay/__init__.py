"""The runtime of a relay: clients' connections, each with its own connection to a broker, and the nodes of the
cluster."""
