"""The sockets of clients, for all kinds of targets: ports, TLS, admission, authentication, limits, requests in frames.

`target` is the interface of a target for its listener. `client_transport` is the part that every connection of a client
has. `requests` handles requests that come in frames. Nothing here knows of pools.
"""
