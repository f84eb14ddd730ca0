"""The target `pool`: every member of a group shares the records of several clusters. It decides, and does no IO.

The words of it:

* pool: all that is known of one group of one virtual cluster: its members, its partitions, what each member holds.
* member: one consumer of a group, whichever of Kafka's two group protocols it speaks.
* slot: a range of 2^32 virtual offsets that belongs to one member, so that an offset tells whose it is.
* window: what one member holds of one partition: the deliveries it has not committed, in the order of their offsets.
* ledger: which upstream offsets of one partition are received, settled and stored, as spans.
* settled: nobody has to process it any more. Records are acknowledged (a member committed them, a lease did), or
  dead-lettered; an offset may have no record. What is settled is stored when an upstream commit says so; below the
  committed offset all is.
* span: a run of neighbouring upstream offsets, first and last included.
* backlog: records of one partition that wait for a Fetch. A partition has parked Fetches or a backlog, never both.
* lock: what holds records for one member until it commits them; a silent member loses them after `lock_timeout`.
* engine: what reads one upstream cluster for one pool, and commits to its group there (`mesh.upstream.engine`).
* lease: spans that a batch reader such as Spark holds beside the members, until it acknowledges them as a whole.

A request or an event is one method of `core.PoolCore`; it returns effects, which a runtime carries out in their order.
The packages, from the top: `apis` (one file for each API key), `identity` (whose request it is), `groups` (the group
protocols), `intake` (what comes from upstream), `leases`, `fetch`, `redelivery`, `distribution` (who gets what is
next), `offsets` (what is committed), `state` (members, partitions, windows, ledgers), `common` (ids, settings,
effects).
"""
