"""What people order, whether through the API or the window."""
