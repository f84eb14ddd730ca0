"""The Kafka protocol of a server, without IO: frames, headers, messages, the order of answers on a connection.

`messages` are plain values that do not depend on versions. `connection.ServerConnection` turns bytes into requests, and
responses into bytes. `apis` knows the headers of all of Kafka's APIs, and the bodies that can be decoded; other bodies
stay bytes. `decoder` and `fetch` read data of peers, and check every length and count before they allocate memory.
kio's own reader never reads such data: it aborts the process on a hostile element count.

Data that only passes through is not assembled: `passing` cuts a stream into pieces of frames, and `answer_walker` hides
the addresses at the end of answers whose beginning has been sent already.
"""
