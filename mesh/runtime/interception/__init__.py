"""Interceptors at work: in the workers that they run in, and on the way of clients' records through connections."""
