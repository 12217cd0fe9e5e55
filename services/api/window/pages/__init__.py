"""A page a file, as `services.api.routes` has a topic a file."""
