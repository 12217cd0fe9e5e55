"""Iterations: what agents did, step by step and call by call."""
