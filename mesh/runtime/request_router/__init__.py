"""Routers that answer each request themselves (`mesh.routing.spi.Router`), at work."""
