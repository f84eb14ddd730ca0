"""Runtimes: they carry out the decisions of a target, and do its IO. There is one package for each kind of target."""
