"""Looks up in one round trip what the tools of one answer need, and has what they insert written in one statement."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from shared.database import locks
from shared.database.statements import Batch, PendingResult
from shared.database.transaction import Transaction
from shared.graph import elements, types
from shared.graph.conclusions import conclusions
from shared.graph.conclusions.conclusions import Lookups
from shared.graph.entity_resolution import aliases
from shared.graph.entity_resolution.aliases import NameLookup, NameRequest, RequestKeys
from shared.graph.provenance import sources
from shared.graph.provenance.numbered_pages import NumberedPage
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools.conclusion_tools import (
    AddAgentAdviceNode,
    AddAgentAnalysisNode,
    with_ids,
)
from shared.graph.tools.references import NamedNodes, prepare_named, referenced_id
from shared.graph.tools.write_tools import (
    AddGraphEdge,
    AddGraphNode,
    EvidenceArgument,
    LinkAnalysis,
)
from shared.graph.upsert import ElementBuffer
from shared.graph.validation import normalize_name
from shared.tools import Arguments, ToolRefusalError

_HandOver = Callable[[Transaction], Awaitable[None]]


@dataclass(frozen=True)
class FactLookups:
    """A `shared.tools.Prepare`.

    What cannot be known before the tools run, such as a node that is given by its name, they read by themselves.
    """

    scope: GraphScope
    duplicate_threshold: float
    pages: tuple[NumberedPage, ...] = field(default=(), hash=False)
    """Pages whose sentences are cited by number."""
    short_ids: ShortIds | None = None

    def __call__(self, batch: Batch, arguments: Sequence[Arguments]) -> _HandOver:
        nodes = [each for each in arguments if isinstance(each, AddGraphNode)]
        new_edges = [each for each in arguments if isinstance(each, AddGraphEdge)]
        scope = self.scope
        batch.add(locks.write_locks(scope.agent_id))
        evidence: list[EvidenceArgument] = []
        facts: list[AddGraphNode | AddGraphEdge] = [*nodes, *new_edges]
        for fact in facts:
            with suppress(ToolRefusalError):
                evidence += fact.all_evidence
        urls = [url for entry in evidence if (url := entry.url_of(self.pages)) is not None]
        pages = batch.add(sources.pages_query(scope, urls))
        schemas = batch.add(types.node_schemas_query(scope, {node.type for node in nodes}))
        rules = batch.add(types.edge_rules_query(scope, {edge.type for edge in new_edges}))
        requests: list[RequestKeys] = []
        for node in nodes:
            with suppress(ToolRefusalError):
                name, distinct = normalize_name(node.name), node.distinct_ids(self.short_ids)
                qualifier = normalize_name(node.qualifier) if node.qualifier else ""
                request = NameRequest(
                    node.type,
                    name,
                    node.aliases,
                    distinct,
                    self.duplicate_threshold,
                    qualifier=qualifier,
                )
                requests.append(aliases.request_keys(request))
        names = batch.add(aliases.names_query(scope, requests)) if requests else None
        ends = _prepare_ends(batch, scope, new_edges)
        named = _prepare_named_ends(batch, scope, new_edges)

        async def hand_over(transaction: Transaction) -> None:
            sources.remember_pages(transaction, scope, pages.value)
            types.remember_types(transaction, scope, schemas.value, rules.value)
            transaction.buffer = buffer = ElementBuffer(scope, ends.value)
            if names is not None:
                buffer.lookups[NameLookup] = names.value
            await _look_up_named_ends(transaction, buffer, new_edges, named.value)

        return hand_over


@dataclass(frozen=True)
class ConclusionLookups:
    """A `shared.tools.Prepare` for conclusions of one type, and their links."""

    scope: GraphScope
    type_name: str
    short_ids: ShortIds | None = None

    def __call__(self, batch: Batch, arguments: Sequence[Arguments]) -> _HandOver:
        scope = self.scope
        texts = [
            (
                each.name,
                with_ids(each.summary, self.short_ids),
                with_ids(each.content, self.short_ids),
            )
            for each in arguments
            if isinstance(each, AddAgentAnalysisNode | AddAgentAdviceNode)
        ]
        links = [each for each in arguments if isinstance(each, LinkAnalysis)]
        # A merge would move the evidence, and what was found in it, that new conclusions cite.
        batch.add(locks.write_locks(scope.agent_id))
        lookups = (
            conclusions.prepare_lookups(batch, scope, self.type_name, texts) if texts else None
        )
        rules = None
        if links:
            rules = batch.add(types.edge_rules_query(scope, {link.type for link in links}))
        ends = _prepare_ends(batch, scope, links)
        named = _prepare_named_ends(batch, scope, links)

        async def hand_over(transaction: Transaction) -> None:
            if rules is not None:
                types.remember_types(transaction, scope, {}, rules.value)
            transaction.buffer = buffer = ElementBuffer(scope, ends.value)
            if lookups is not None:
                buffer.lookups[Lookups] = lookups.value
            await _look_up_named_ends(transaction, buffer, links, named.value)

        return hand_over


def _prepare_named_ends(
    batch: Batch, scope: GraphScope, new_edges: Sequence[AddGraphEdge | LinkAnalysis]
) -> PendingResult[NamedNodes]:
    return prepare_named(
        batch, scope, [end for edge in new_edges for end in (edge.source_id, edge.target_id)]
    )


async def _look_up_named_ends(
    transaction: Transaction,
    buffer: ElementBuffer,
    new_edges: Sequence[AddGraphEdge | LinkAnalysis],
    named: NamedNodes,
) -> None:
    """Looks up the ends of edges that are given by the names of nodes in the graph, in one more round trip."""
    buffer.lookups[NamedNodes] = named
    buffer.known_nodes |= {row.id: (row.type, row.name) for rows in named.values() for row in rows}
    keys = []
    for edge in new_edges:
        source, target = (named.find(end) for end in (edge.source_id, edge.target_id))
        key = (edge.type, source, target)
        if source and target and key not in buffer.lookups:
            keys.append((edge.type, source, target))
    if keys:
        batch = Batch()
        ends = batch.add(elements.ends_query(buffer.scope, list(dict.fromkeys(keys))))
        await batch.execute(transaction)
        buffer.lookups |= ends.value


def _prepare_ends(
    batch: Batch, scope: GraphScope, new_edges: Sequence[AddGraphEdge | LinkAnalysis]
) -> PendingResult[dict[Any, Any]]:
    """Asks for the ends of edges that are given by ids."""
    ids = [
        (edge.type, referenced_id(edge.source_id), referenced_id(edge.target_id))
        for edge in new_edges
    ]
    keys = [(type_name, source, target) for type_name, source, target in ids if source and target]
    return batch.add(elements.ends_query(scope, keys)) if keys else batch.then(dict)
