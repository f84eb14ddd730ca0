"""Hides the real package: an import finds this one first, and fails."""

raise ImportError("hypothesis is hidden from the processes of tests")
