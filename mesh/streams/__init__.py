"""Topology descriptions of streams groups (KIP-1331), for clusters whose brokers do not keep them. No IO, no clock.

A Kafka Streams application reports its topology in its heartbeats, as far as the coordinator must know it to assign
tasks. A *description* has all of it: sources, processors, stores, sinks. A member pushes the description when it is
asked to. A *plugin* keeps it, and administrators read it with StreamsGroupDescribe.

The *current* epoch of a group is that of its present topology. *Stored* and *failed* epochs: see `epochs`.
"""
