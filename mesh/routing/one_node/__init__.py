"""All brokers of a cluster as one node: divides requests among the brokers, and joins their answers.

*the node*: the broker that clients see; there may be a second one, for coordinators. *broker*: a broker of the cluster,
by its own id, which clients do not see. *leg*: the part of a client's Fetch that goes to one broker.
"""
