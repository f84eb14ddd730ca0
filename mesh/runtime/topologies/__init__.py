"""Serves topology descriptions of streams groups over a cluster whose brokers do not know them."""
