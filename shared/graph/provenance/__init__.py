"""Provenance: sources, quotes, claims, evidence and integrity seals."""
