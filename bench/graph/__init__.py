"""What one agent's graph costs as it grows: see `__main__`."""
