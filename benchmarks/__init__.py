"""kafka-mesh side by side with direct consumption, a plain TCP relay, and share groups, on a real broker.

`make bench`; see docs/performance.md. Every claim is a ratio of targets that took turns in the same rounds.
"""
