"""Who asks: credentials, sessions, sign-in links, and what they may do."""
