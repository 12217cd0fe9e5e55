"""Agents: their settings, their configuration, and what they do at the moment."""
