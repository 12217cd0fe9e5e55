"""Keys and certificates of a cluster, and what is set up in it."""
