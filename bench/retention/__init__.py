"""A year of iterations with retention: whether tables reach a steady size, and what is left can be verified."""
