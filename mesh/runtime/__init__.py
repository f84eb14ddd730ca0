"""Runtimes: what carries out the decisions of a target, with its IO. One package for each kind of target."""
