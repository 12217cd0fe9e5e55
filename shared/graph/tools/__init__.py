"""The graph tools that each phase offers to its model, and no others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.readings import ConclusionReadings
from shared.graph.entity_resolution.relations import DUPLICATE_THRESHOLD
from shared.graph.provenance.numbered_pages import NumberedPage
from shared.graph.retrieval import EmbeddingSearch
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools.conclusion_tools import (
    add_agent_advice_node,
    add_agent_analysis_node,
    request_investigation,
    review_advice,
)
from shared.graph.tools.lookups import ConclusionLookups, FactLookups
from shared.graph.tools.read_tools import list_edge_types, list_node_types, query_graph
from shared.graph.tools.write_tools import (
    add_graph_edge,
    add_graph_node,
    create_edge_type,
    create_node_type,
    link_analysis,
)
from shared.graph.validation import Validators
from shared.tools import StateTool, finish

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
    "link_analysis",
    "list_edge_types",
    "list_node_types",
    "query_graph",
    "request_investigation",
    "review_advice",
]

GraphTools = list[StateTool[Any]]


def graph_construction(
    scope: GraphScope,
    validators: Validators | None = None,
    duplicate_threshold: float = DUPLICATE_THRESHOLD,
    embedding_search: EmbeddingSearch | None = None,
    pages: Sequence[NumberedPage] = (),
    short_ids: ShortIds | None = None,
) -> GraphTools:
    """Tools that write facts: types, nodes and edges. Pass the process's `validators`, so that schemas compile once.

    Evidence can cite sentences of `pages` by number. `short_ids` are those that the results are shown with.
    """
    validators = validators or Validators()
    batch = FactLookups(scope, duplicate_threshold, tuple(pages), short_ids)
    return [
        query_graph(scope, embedding_search),
        list_node_types(scope),
        list_edge_types(scope),
        create_node_type(scope, validators),
        create_edge_type(scope, validators),
        replace(
            add_graph_node(scope, validators, duplicate_threshold, pages, short_ids), prepare=batch
        ),
        replace(add_graph_edge(scope, validators, pages), prepare=batch),
        finish(),
    ]


def analysis_generation(
    scope: GraphScope,
    validators: Validators | None = None,
    embedding_search: EmbeddingSearch | None = None,
    short_ids: ShortIds | None = None,
    readings: ConclusionReadings | None = None,
) -> GraphTools:
    """Tools that write analyses, link them to their subjects, and request missing data. What fails the `readings` is not
    written.
    """
    validators = validators or Validators()
    batch = ConclusionLookups(scope, ANALYSIS_TYPE, short_ids)
    return [
        query_graph(scope, embedding_search),
        replace(add_agent_analysis_node(scope, short_ids, readings), prepare=batch),
        replace(link_analysis(scope, validators), prepare=batch),
        request_investigation(scope),
        finish(),
    ]


def advice_generation(
    scope: GraphScope,
    actions: Mapping[str, str],
    embedding_search: EmbeddingSearch | None = None,
    short_ids: ShortIds | None = None,
    readings: ConclusionReadings | None = None,
) -> GraphTools:
    """Tools that write and review advice. `actions` are the agent's words for what the owner should do.

    What fails the `readings` is not written.
    """
    batch = ConclusionLookups(scope, ADVICE_TYPE, short_ids)
    return [
        query_graph(scope, embedding_search),
        replace(add_agent_advice_node(scope, actions, short_ids, readings), prepare=batch),
        replace(review_advice(scope, short_ids, readings), prepare=batch),
        finish(),
    ]
