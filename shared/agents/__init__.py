"""Agents: their names, missions, prompts and settings, and what their owners and they say to each other."""
