"""One machine, no Docker: the engines from wheels and the actors, as children of one supervisor."""
