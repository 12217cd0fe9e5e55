"""The read side: what the API and the window show, one module a group of resources."""
