"""Several clusters as one: a router sends each topic, group, request or connection along one of its routes.

A *router* has *routes*, and chooses one of them for each name, request or connection. A route leads to a cluster, to
another router, or to a pool. A *leaf* is a path of routes that ends at a cluster; its number is part of the node ids
that clients see. A *union* is the one cluster that routers by names make of their leaves. Each topic belongs to one
leaf, its owner; each group and each transaction belongs to one leaf, its home.
"""
