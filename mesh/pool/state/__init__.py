"""The state of a pool: members and their windows, partitions and their ledgers, leases, slots.

These classes keep invariants and decide nothing that concerns two of them.
"""
