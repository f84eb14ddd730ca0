"""A relay at work: its clients' connections, each with one of its own to a broker, and the nodes of its cluster."""
