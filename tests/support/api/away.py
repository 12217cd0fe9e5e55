"""The URL of a database that does not answer."""

UNREACHABLE_DATABASE_URL = "postgresql://postgres@127.0.0.1:1/vigil"
