"""The store: a compacted topic for the state of groups that have no commit metadata."""
