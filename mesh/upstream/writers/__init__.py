"""Writers: producers of the mesh's own, for dead letters and for the journal."""
