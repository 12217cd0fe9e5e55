"""Search in the graph by words and, if embeddings are configured, by meaning.

Without an embedding model or without pgvector, only the word search runs.
"""

from shared.graph.retrieval.node_search import EmbeddingSearch, VectorQuery

__all__ = ["EmbeddingSearch", "VectorQuery"]
