"""Two nodes that are one thing made one, so that it can be undone."""

from shared.graph.merging.merge import merge
from shared.graph.merging.refusal import MergeRefusedError
from shared.graph.merging.undo import undo

__all__ = ["MergeRefusedError", "merge", "undo"]
