"""Entity resolution: recognizes names of the same entity, and merges duplicate nodes so that it can be undone."""

from shared.graph.entity_resolution.merge import MergeRefusedError, merge_nodes, undo_merge

__all__ = ["MergeRefusedError", "merge_nodes", "undo_merge"]
