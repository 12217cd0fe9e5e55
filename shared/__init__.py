"""Libraries that the services share."""
