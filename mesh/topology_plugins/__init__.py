"""The plugins that keep topology descriptions: those that kafka-mesh ships, and those of other packages."""
