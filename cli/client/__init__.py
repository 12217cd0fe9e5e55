"""The API client. Imports nothing, so that `vigil --help` does not load an HTTP client."""
