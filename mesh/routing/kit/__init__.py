"""Requests that several clusters have a part in: taken apart by what they name, and answered as by one cluster.

`entity_lists` finds what of a request an answer says something about; `errors` makes the answer that refuses it.
"""
