"""Whole installations, killed at chosen and random points, compared with an undisturbed run."""
