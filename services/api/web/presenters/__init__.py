"""What a page shows, computed from what was read."""
