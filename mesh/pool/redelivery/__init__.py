"""The redelivery of records that a member did not settle: they are released to others, read again from upstream, or
written to a dead-letter topic."""
