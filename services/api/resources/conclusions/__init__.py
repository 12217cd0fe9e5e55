"""Conclusions: analyses and advice, with the chain of what they rest on."""
