"""The routes, a file for each topic. They translate; the work stands beside them, or in `services.api.queries`."""
