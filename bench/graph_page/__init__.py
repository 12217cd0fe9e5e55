"""Benchmark of the graph page."""
