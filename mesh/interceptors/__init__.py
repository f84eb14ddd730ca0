"""Interceptors: users' code that reads records on their way, and changes, drops or refuses them.

`spi` is the interface, `chain` runs several of them on the records of a partition, `shipped` has those of kafka-mesh,
and `worker` is the process in which others run.
"""
