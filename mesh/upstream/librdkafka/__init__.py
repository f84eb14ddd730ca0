"""The engine that is a librdkafka consumer, and the group membership that both engines have of it."""
