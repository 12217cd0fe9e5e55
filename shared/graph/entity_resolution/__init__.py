"""Entity resolution: recognizes names of the same entity, merges duplicate nodes, and splits nodes that are two things."""

from shared.graph.entity_resolution.merge import MergeRefusedError, merge_nodes, undo_merge
from shared.graph.entity_resolution.split import split_node

__all__ = ["MergeRefusedError", "merge_nodes", "split_node", "undo_merge"]
