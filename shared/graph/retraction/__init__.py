"""Retraction and restoration of sources, and the changes to the graph that follow."""
