"""Clients' sockets, whatever the target: ports, TLS, admission, authentication, limits, requests."""
