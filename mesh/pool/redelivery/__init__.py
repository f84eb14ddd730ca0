"""Records that a member leaves behind: released to others, read again from upstream, or written to a dead-letter
topic."""
