"""The actors: one folder, one process each. No actor imports another."""
