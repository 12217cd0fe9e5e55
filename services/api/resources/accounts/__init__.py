"""Users, their credentials, and the sign-in of browsers."""
