"""Iterations and their steps: leases, joins, dead letters, and the events that follow from what is stored."""
