"""Replays: delivers acknowledged records again for an operator, while the group goes on. `service` decides when and how
much is read again."""
