"""Several clusters as one: routers lead to clusters by routes.

A *router* has *routes*, and decides which of them something goes. A route leads to a cluster, to another router, or to
a pool. A path of routes that ends at a cluster is a *leaf*; its number stands in the node ids that clients see. A
*union* is what routers that go by names make of their leaves: each topic has one leaf, its owner; each group and each
transaction has one, its home.
"""
