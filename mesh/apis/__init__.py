"""What the APIs of all targets share: handlers, guards, and the APIs that a listener serves itself."""
