"""Shared by the APIs of all targets: the handler and its context, guards, and the APIs that a listener serves
itself."""
