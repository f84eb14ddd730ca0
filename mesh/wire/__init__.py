"""The Kafka protocol as a server speaks it, without IO: frames, headers, messages, a connection's order of answers.

`messages` are plain values free of versions. `connection.ServerConnection` takes bytes and gives requests, takes
responses and gives bytes. What a peer sends is read by `decoder` and `fetch`, which bound every length and count before
memory is allocated, and never by kio's own reader: that one aborts the process on a hostile element count.
"""
