"""Records that a member leaves behind: released, read again, or written to the dead-letter topic."""
