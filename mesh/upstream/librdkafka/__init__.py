"""The engine that is a librdkafka consumer on a thread of its own. The raw engine uses its group membership, too."""
