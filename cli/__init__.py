"""The `vigil` command, and what it needs to run a whole installation on one machine."""
