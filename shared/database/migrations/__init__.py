"""One history of the tables."""
