"""Rendering for a terminal, readable without one too."""
