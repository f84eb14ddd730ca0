"""Topology descriptions of streams groups (KIP-1331), for clusters whose brokers do not keep them. No IO, no clock.

A Kafka Streams application says in its heartbeats which topology it has, as far as the coordinator must know it to
assign tasks. A *description* says all of it: sources, processors, stores, sinks. Its members push it when they are
asked to; a *plugin* keeps it, and administrators read it with StreamsGroupDescribe.

*Current* epoch: of the topology that the group has. *Stored* and *failed* epochs: see `epochs`.
"""
