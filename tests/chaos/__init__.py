"""Whole installations, killed at chosen and at random instants, compared with one that was left alone."""
