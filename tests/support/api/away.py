"""A database where nobody listens."""

NOBODY_LISTENS = "postgresql://postgres@127.0.0.1:1/vigil"
