"""The plugins that keep topology descriptions: those that ship, and those of other packages."""
