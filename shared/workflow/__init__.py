"""Iterations, steps and their leases, investigation requests, dead letters."""
