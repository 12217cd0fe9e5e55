"""The web UI, without a server."""
