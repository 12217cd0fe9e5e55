"""The graph as the model gets to see it: which tools each phase is handed, and no others (promise G8)."""

from typing import Any

from shared.graph.entity_resolution.candidates import LIKENESS
from shared.graph.retrieval import Meaning
from shared.graph.scope import Scope
from shared.graph.tools.conclusion_tools import (
    add_agent_advice_node,
    add_agent_analysis_node,
    request_investigation,
)
from shared.graph.tools.read_tools import list_edge_types, list_node_types, query_graph
from shared.graph.tools.write_tools import (
    add_graph_edge,
    add_graph_node,
    create_edge_type,
    create_node_type,
    tie_analysis,
)
from shared.graph.validation import Validators
from shared.tools import StateTool

__all__ = [
    "add_agent_advice_node",
    "add_agent_analysis_node",
    "add_graph_edge",
    "add_graph_node",
    "advice_generation",
    "analysis_generation",
    "create_edge_type",
    "create_node_type",
    "graph_construction",
    "list_edge_types",
    "list_node_types",
    "query_graph",
    "request_investigation",
    "tie_analysis",
]

Tools = list[StateTool[Any]]


def graph_construction(
    scope: Scope,
    validators: Validators | None = None,
    likeness: float = LIKENESS,
    meaning: Meaning | None = None,
) -> Tools:
    """Facts in: types, nodes and edges. Give the process's `validators`, so that schemas are made ready once."""
    validators = validators or Validators()
    return [
        query_graph(scope, meaning),
        list_node_types(scope),
        list_edge_types(scope),
        create_node_type(scope, validators),
        create_edge_type(scope, validators),
        add_graph_node(scope, validators, likeness),
        add_graph_edge(scope, validators),
    ]


def analysis_generation(
    scope: Scope, validators: Validators | None = None, meaning: Meaning | None = None
) -> Tools:
    """Conclusions from facts, edges that tie them to what they are about, and what is lacking for a conclusion."""
    validators = validators or Validators()
    return [
        query_graph(scope, meaning),
        add_agent_analysis_node(scope),
        tie_analysis(scope, validators),
        request_investigation(scope),
    ]


def advice_generation(scope: Scope, meaning: Meaning | None = None) -> Tools:
    """Advice from conclusions."""
    return [query_graph(scope, meaning), add_agent_advice_node(scope)]
