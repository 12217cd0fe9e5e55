"""One machine without Docker: engines from wheels and the services, as children of one supervisor."""
