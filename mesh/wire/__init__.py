"""The Kafka protocol as a server speaks it, without IO: frames, headers, messages, a connection's order of answers.

`messages` are plain values free of versions. `connection.ServerConnection` takes bytes and gives requests, takes
responses and gives bytes. `apis` knows the headers of all of Kafka's APIs, and which bodies can be decoded; others are
handed out as they came. What a peer sends is read by `decoder` and `fetch`, which bound every length and count before
memory is allocated, and never by kio's own reader: that one aborts the process on a hostile element count.

What is only passed on is not assembled: `passing` cuts a stream into pieces of frames, and `answer_walker` hides the
addresses at the end of answers whose beginning has left.
"""
