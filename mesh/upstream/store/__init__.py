"""The store: what the mesh keeps of groups that have no commit metadata, in a compacted topic."""
