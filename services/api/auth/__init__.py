"""Authentication and authorization: credentials, sessions, sign-in links, scopes."""
