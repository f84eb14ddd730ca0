"""The commands of `kafka-mesh`, which `mesh.cli` puts together. Heavy modules are imported when they are needed."""
