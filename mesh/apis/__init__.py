"""What the APIs of all targets share: what a handler is and is told, guards, and the APIs that a listener serves
itself."""
