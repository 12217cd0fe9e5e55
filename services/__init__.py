"""The services: one folder, one process each. No service imports another."""
