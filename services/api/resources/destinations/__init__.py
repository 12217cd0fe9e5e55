"""Destinations that inbox items are sent to, and their deliveries."""
