"""Full-text search over a corpus."""

from sandbox.search.index import Hit, SearchIndex, SearchQuery
from sandbox.search.library import open_index

__all__ = ["Hit", "SearchIndex", "SearchQuery", "open_index"]
