"""A router at work: its clients' connections, each of which leads to a node of a leaf, and requests for several."""
