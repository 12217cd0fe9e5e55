"""A page a file, as `services.api.routers` has a topic a file."""
