"""Conclusions: analyses and advice, their citations and forecast terms."""
