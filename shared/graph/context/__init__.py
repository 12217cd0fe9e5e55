"""What a phase sees of the graph: a survey of it all, and in full the nodes or analyses that it was given."""

from shared.graph.context.describe import describe_analyses, describe_nodes
from shared.graph.context.overview import build
from shared.graph.context.references import resolve
from shared.graph.context.shared import Shared

__all__ = ["Shared", "build", "describe_analyses", "describe_nodes", "resolve"]
