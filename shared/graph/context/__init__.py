"""What a phase sees of the graph: a survey of it all, and in full the nodes or analyses that it was given."""

from shared.graph.context.cache import Shared
from shared.graph.context.history import describe_analyses, describe_nodes, resolve
from shared.graph.context.survey import build

__all__ = ["Shared", "build", "describe_analyses", "describe_nodes", "resolve"]
