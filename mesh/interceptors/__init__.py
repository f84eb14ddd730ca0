"""Interceptors: code of users that looks at records on their way, changes them, drops them or refuses them.

`spi` is what they implement, `chain` lets several of them see the records of a partition, `shipped` has those that come
with kafka-mesh, and `worker` is the process in which others run.
"""
