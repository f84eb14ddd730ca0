"""Definitions that all packages of a pool share: ids, settings, timers, effects, and the results that answer
requests."""
