"""Whether everything landed, once: the journal, the upstream groups and the landed table compared."""
