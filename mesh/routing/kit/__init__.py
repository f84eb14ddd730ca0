"""Requests that several clusters have a part in: taken apart by what they name, and answered as by one cluster.

`union_apis` says which APIs are served, and which clusters have a part in each. `split` takes a request apart, `merge`
puts the answers together. `entity_lists` finds what of a request an answer says something about; `errors` makes the
answer that refuses it.
"""
