"""Users and their credentials: tokens, sessions, sign-in links."""
