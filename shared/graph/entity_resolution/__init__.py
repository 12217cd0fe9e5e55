"""Two nodes that are one thing made one, so that it can be undone."""

from shared.graph.entity_resolution.merge import MergeRefusedError, merge
from shared.graph.entity_resolution.unmerge import undo

__all__ = ["MergeRefusedError", "merge", "undo"]
