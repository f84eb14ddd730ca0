"""What the rooms of a pool have in common: ids, settings, timers, effects, and the answers to requests."""
