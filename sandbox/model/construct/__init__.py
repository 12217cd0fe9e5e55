"""The graph construction phase: from a document to nodes and edges."""

from sandbox.model.construct.stages import construct

__all__ = ["construct"]
