"""Presenters: they compute what a page shows from what was queried."""
