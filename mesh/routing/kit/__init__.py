"""Handles requests that concern several clusters: divides them by the entities that they name, and answers like one
cluster.

`union_apis` lists the served APIs, and the clusters of each. `split` divides a request, `merge` joins the answers.
`entity_lists` pairs the arrays of requests and answers. `errors` makes the answer to a failed request.
"""
