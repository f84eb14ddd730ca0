"""The runtime of routers that answer each request themselves (`mesh.routing.spi.Router`)."""
