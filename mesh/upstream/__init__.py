"""Upstream clusters: engines that read them for pools, the catalog of their topics, and what is written to them.

`engine` is what an engine does and tells; `engine_choice` chooses one. `raw` passes batches on undecoded, `librdkafka`
is a consumer of that library; `links` are our own connections to brokers; `groups` asks about upstream groups;
`writers` write dead letters and the journal.
"""
