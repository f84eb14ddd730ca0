"""What `kafka-mesh` can be told to do; `mesh.cli` puts it together. Everything heavy is imported when it is needed."""
