"""Clients' sockets, whatever the target: ports, TLS, admission, authentication, limits, requests in frames.

`target` is what a listener knows of a target, `client_transport` what every connection of a client owns, `requests`
takes up requests that come in frames. Nothing here knows of pools.
"""
