"""Watching an iteration while it runs: the bus says when there is news, the api says what."""
