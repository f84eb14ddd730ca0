"""The raw engine: batches from an upstream Fetch answer to a downstream one, undecoded."""
