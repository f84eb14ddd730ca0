"""Several processes that serve one configuration: they are started, watched, queried as one, and stopped together."""
