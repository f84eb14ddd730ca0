"""What the mesh writes to upstream clusters: dead letters and the journal."""
