"""Search by meaning, where embeddings are configured: nodes have vectors, and a question finds those near its own.

Without a model for them, or without pgvector, nothing of this is looked at, and nothing else changes.
"""

from shared.graph.retrieval.node_search import Meaning, Near

__all__ = ["Meaning", "Near"]
