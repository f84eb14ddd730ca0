"""What all packages of a pool use: ids, settings, timers, effects, and the results that answer requests."""
