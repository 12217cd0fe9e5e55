"""The window, without a server."""
