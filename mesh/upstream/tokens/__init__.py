"""Tokens for OAUTHBEARER upstream: where they come from, and one source for all clients of a cluster."""
