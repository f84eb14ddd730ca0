"""Upstream clusters: the engines that read them for pools, the catalog of their topics, and the writers to them.

`engine` defines the commands and events of an engine; `engine_choice` chooses one. The engine in `raw` passes batches
on undecoded; the one in `librdkafka` uses that library's consumer. `links` are the mesh's own connections to brokers;
`groups` asks about upstream groups; `writers` write dead letters and the journal.
"""
