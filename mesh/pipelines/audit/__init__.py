"""The audit: compares the journal, the upstream groups and the landed table, to prove that every record landed once."""
