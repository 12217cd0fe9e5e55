"""Analyses and advice: their citations, their commitments, and how they are found."""
