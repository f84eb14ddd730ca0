"""Runs interceptors, in worker processes or inline, on the records that pass through clients' connections."""
