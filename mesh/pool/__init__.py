"""The target `pool`: the members of a group share the records of several clusters. The code here decides, and does no
IO.

Glossary:

* pool: one group of one virtual cluster, with its members, its partitions, and the records that each member holds.
* member: one consumer of a group, in any of Kafka's group protocols.
* slot: a range of 2^32 virtual offsets that belongs to one member. So each virtual offset identifies its member.
* window: the deliveries of one partition that a member has not committed, in the order of their offsets.
* ledger: the upstream offsets of one partition that are received, settled and stored, as spans.
* settled: no member has to process this offset any more. A member committed its record, a lease acknowledged it, it is
  a dead letter, or the offset has no record.
* stored: settled, and recorded in an upstream commit: below the committed offset, or in the commit's metadata.
* span: a run of neighbouring upstream offsets, first and last included.
* backlog: records of one partition that wait for a Fetch. A partition has waiting Fetches or a backlog, never both.
* lock: the exclusive hold of a member on its records until it commits them. A silent member loses it after
  `lock_timeout`.
* engine: the component that reads one upstream cluster for one pool, and commits to its group there
  (`mesh.upstream.engine`).
* replay: acknowledged spans that are delivered once more because an operator asked for it.
* resend: records that a member is sent again at the same virtual offsets, because it fetched them again.
* lease: spans that a batch reader such as Spark holds, instead of a member, until it acknowledges all of them.

A request or an event is one method of `core.PoolCore`. It returns effects, which a runtime carries out in order. The
packages, from the top:

* `apis`: one file for each API key.
* `identity`: finds the member of a request. `groups`: the group protocols. `intake`: events from upstream.
* `replay`, `leases`, `fetch`, `redelivery`, `distribution` (chooses the member for the next batch), `offsets`
  (commits).
* `state`: members, partitions, windows, ledgers. `common`: ids, settings, effects.
"""
