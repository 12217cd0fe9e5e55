"""Pages that are retracted and restored, and what that changes in the graph."""
