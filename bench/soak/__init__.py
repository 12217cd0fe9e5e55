"""Many agents for a long time: what stays flat, and what grows."""
