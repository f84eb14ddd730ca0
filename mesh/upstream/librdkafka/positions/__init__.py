"""Where a partition begins to be read: committed offsets, bounds, ends, and logs made anew."""
