"""Commands of users, shared by the JSON API and the web UI."""
