"""Writers: the mesh's own producers, for dead letters and for the journal."""
