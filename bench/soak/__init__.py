"""Many agents for a long time: what stays as it is, and what grows."""
