"""The Kafka protocol as a server speaks it, without IO: frames, headers, messages, a connection's order of answers.

`messages` are plain values free of versions. `connection.ServerConnection` takes bytes and gives requests, takes
responses and gives bytes. `apis` knows the headers of all of Kafka's APIs, and which bodies can be decoded; others are
handed out as they came. What a peer sends is read by `decoder` and `fetch`, which bound every length and count before
memory is allocated, and never by kio's own reader: that one aborts the process on a hostile element count.

What a relay passes on is not decoded: `spans` and `entities` replace what stands in a message and leave all other bytes
where they are, `addresses` and `api_versions_filter` do so in the answers that a relay changes, `relayed_apis` has what
it passes at all.
"""
