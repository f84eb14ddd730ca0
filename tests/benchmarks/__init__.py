"""Tests that the benchmarks work, and that the cost of a unit of work does not grow. They measure no times."""
