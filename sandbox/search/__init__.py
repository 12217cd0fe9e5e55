"""Full-text search over a corpus."""

from sandbox.search.index import Hit, SearchIndex, SearchQuery, open_index

__all__ = ["Hit", "SearchIndex", "SearchQuery", "open_index"]
