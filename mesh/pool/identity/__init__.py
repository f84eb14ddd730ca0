"""Which member a connection speaks for, and what clients without one are told."""
