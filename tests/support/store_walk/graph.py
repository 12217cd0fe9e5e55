"""Operations of the graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import select

from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.tables import Evidence, Source
from shared.database.tables.graph import DIMENSIONS
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from shared.domains import site_of
from shared.enums import Entailment
from shared.graph import elements, projection, short_ids, system_types, types, upsert, validity
from shared.graph.conclusions import citation_index, conclusions, position_store, reviews
from shared.graph.conclusions.reviews import Review
from shared.graph.entity_resolution import MergeRefusedError, distinct, merge, moving, split
from shared.graph.entity_resolution.merge import Merge
from shared.graph.projection import EDGES, NODES
from shared.graph.provenance import readings, sources
from shared.graph.retraction import doubts, propagation, retractions
from shared.graph.retrieval import embedding_backlog
from shared.graph.retrieval.embedding_backlog import EmbeddingBatch, Sweep
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.transfer import exporter, importer
from shared.graph.transfer.exporter import GraphContent
from shared.graph.transfer.file_reader import BadFileError, ExportedGraph
from shared.graph.upsert import Element, ElementBuffer
from shared.graph.validation import Validators
from shared.tools import Json, ToolRefusalError
from shared.tools.readings import ClaimFinding, Findings, Material
from shared.workflow import leases
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.graph.agent_graph import (
    COUNTRY,
    COUNTRY_SCHEMA,
    EVIDENCE_INPUTS,
    PAGE,
    AgentGraph,
)
from tests.support.graph.duplicates import merge_nodes
from tests.support.store_walk.operation import Again, Fault, Operation, Part
from tests.support.store_walk.world import World, make_world

RETRACTION: Final = UUID(int=1)
VECTOR: Final = [0.5] * DIMENSIONS
OTHER_PAGE: Final[Json] = {"url": "https://other.example", "title": "Mali", "content": "It is so."}


@dataclass(frozen=True)
class GraphWorld(World):
    """Togoland, which borders Ghana like Togo, is the same as Togo; Tchad was merged into Chad. Analyses and advice rest on
    Ghana and Togoland. All quote one page.
    """

    graph: AgentGraph
    ghana: UUID
    togo: UUID
    togoland: UUID
    chad: UUID
    border: UUID
    """Of Ghana and Togo."""
    analyses: tuple[UUID, UUID]
    advice: UUID
    made_merge: Merge
    pair: UUID
    """Ghana and Chad, which are distinct."""
    source: UUID
    evidence: UUID
    """Of Ghana."""
    exported: bytes

    @property
    def scope(self) -> GraphScope:
        return self.graph.scope

    @property
    def params(self) -> Mapping[str, Any]:
        return {
            **super().params,
            "ghana": self.ghana,
            "analysis": self.analyses[0],
            "evidence": self.evidence,
            "source": self.source,
            "retraction": RETRACTION,
        }

    async def add_node(self, transaction: Transaction, name: str, **properties: Any) -> UUID:
        added = await elements.add_node(
            transaction,
            self.scope,
            self.graph.validators,
            type_name="Country",
            name=name,
            properties={**COUNTRY, **properties},
            evidence=EVIDENCE_INPUTS,
        )
        return added.id

    async def add_edge(self, transaction: Transaction, source: UUID, target: UUID) -> None:
        await elements.add_edge(
            transaction,
            self.scope,
            self.graph.validators,
            type_name="borders",
            source_id=source,
            target_id=target,
            properties={},
            evidence=EVIDENCE_INPUTS,
        )


async def _make_world(database: Database) -> GraphWorld:
    world = await make_world(database)
    graph = AgentGraph(database, GraphScope.of(world.lease), Validators())
    async with database.transaction() as transaction:
        await system_types.ensure_system_types(transaction, world.agent_id)
    await graph.store_search_results()
    await graph.node_type("Country")
    await graph.edge_type("borders")
    ghana, togo, togoland, chad, tchad = [
        await graph.node(name) for name in ("Ghana", "Togo", "Togoland", "Chad", "Tchad")
    ]
    await graph.add_node("Ghana", {"population": 3})
    border = await graph.edge(ghana, togo)
    await graph.edge(ghana, togoland)
    await graph.edge(togo, tchad)
    analyses = (
        await graph.analysis(f"[node:{ghana}] [node:{togoland}]", "One"),
        await graph.analysis(f"[node:{ghana}]", "Other"),
    )
    advice = await graph.advice(" ".join(f"[node:{each}]" for each in analyses))
    made_merge = await merge_nodes(graph, chad, tchad)
    async with database.transaction() as transaction:
        pair = await distinct.declare_distinct(
            transaction, graph.scope, (ghana, chad), graph.scope.owner_id
        )
        source = await transaction.scalar(select(Source.id))
        evidence = await transaction.scalar(select(Evidence.id).where(Evidence.node_id == ghana))
    async with database.snapshot() as snapshot:
        content = GraphContent(snapshot, graph.scope)
        exported = b"".join([piece async for piece in exporter.export_json_lines(content)])
    assert pair is not None
    assert source is not None
    assert evidence is not None
    return GraphWorld(
        **vars(world),
        graph=graph,
        ghana=ghana,
        togo=togo,
        togoland=togoland,
        chad=chad,
        border=border,
        analyses=analyses,
        advice=advice,
        made_merge=made_merge,
        pair=pair,
        source=source,
        evidence=evidence,
        exported=exported,
    )


async def _write_buffered(world: GraphWorld) -> None:
    """As the tools of one answer do: what is new is written with the commit."""
    unit = UnitOfWork(world.database, leases.fence(world.lease))
    async with unit.transaction() as transaction:
        transaction.buffer = ElementBuffer(world.scope)
        mali = await world.add_node(transaction, "Mali")
        niger = await world.add_node(transaction, "Niger")
        await world.add_edge(transaction, mali, niger)
    await unit.commit()


async def _write_conclusions_buffered(world: GraphWorld) -> None:
    unit = UnitOfWork(world.database, leases.fence(world.lease))
    async with unit.transaction() as transaction:
        transaction.buffer = ElementBuffer(world.scope)
        await _add_analysis(world, transaction)
    await unit.commit()


async def _add_analysis(world: GraphWorld, transaction: Transaction) -> None:
    await conclusions.add_analysis(
        transaction,
        world.scope,
        name="Third",
        kind="pattern",
        summary="It grows.",
        content=f"[node:{world.ghana}]",
        confidence=0.5,
    )


async def _add_advice(world: GraphWorld, transaction: Transaction) -> None:
    await conclusions.add_advice(
        transaction,
        world.scope,
        name="Hold on",
        action="HOLD",
        summary="Wait.",
        content=" ".join(f"[node:{each}]" for each in world.analyses),
        replaces=[world.advice],
        change="It has grown more slowly since.",
        **ADVICE_TERMS,
    )


async def _review(world: GraphWorld, transaction: Transaction, review: Review) -> None:
    because = f"It is so [node:{world.analyses[1]}]."
    await reviews.review_advice(
        transaction, world.scope, world.advice, review, because=because, horizon="3 months"
    )


async def _link_analysis(world: GraphWorld, transaction: Transaction) -> None:
    await elements.link_analysis(
        transaction,
        world.scope,
        world.graph.validators,
        type_name=system_types.ABOUT_TYPE,
        source_id=world.analyses[0],
        target_id=world.ghana,
    )


async def _create_node_type(world: GraphWorld, transaction: Transaction) -> None:
    await types.create_node_type(
        transaction,
        world.scope,
        world.graph.validators,
        name="River",
        description="A river",
        properties_schema=COUNTRY_SCHEMA,
        example_properties=COUNTRY,
        created_by="test",
    )


async def _create_edge_type(world: GraphWorld, transaction: Transaction) -> None:
    await types.create_edge_type(
        transaction,
        world.scope,
        name="exports_to",
        description="whom a country sells to",
        source_types=["Country"],
        target_types=["Country"],
        created_by="test",
    )


async def _split(world: GraphWorld, transaction: Transaction) -> None:
    await split.split_node(
        transaction,
        world.scope,
        node_id=world.ghana,
        evidence_ids=[world.evidence],
        qualifier="gold",
        reason="Another Ghana.",
        made_by=world.scope.owner_id,
    )


async def _merge(world: GraphWorld, transaction: Transaction) -> None:
    await merge.merge_nodes(
        transaction,
        world.scope,
        kept_id=world.togo,
        merged_id=world.togoland,
        reason="One country under two names.",
        made_by=world.scope.owner_id,
    )


async def _number_with(world: GraphWorld, transaction: Transaction) -> None:
    batch = Batch()
    ShortIds(world.scope).number_with(batch, [f"[node:{world.ghana}]"], [world.border])
    await batch.execute(transaction)


async def _import(world: GraphWorld, transaction: Transaction) -> None:
    exported = ExportedGraph(BytesIO(world.exported))
    await importer.import_graph(transaction, world.scope.owner_id, exported, "Imported")


def _embeddings(world: GraphWorld) -> EmbeddingBatch:
    position = (world.iteration.started_at, world.ghana)
    node: Any = SimpleNamespace(id=world.ghana, sha256=b"a", position=position)
    return EmbeddingBatch(world.scope, "m", [node])


def _sweep(world: GraphWorld) -> Sweep:
    position = (world.iteration.started_at, world.togo)
    return Sweep(world.scope, "m", [_embeddings(world)], position, [])


_RETRACTED: Final = (
    """insert into retractions (id, agent_id, url, covers, reason, created_at, due_at)
    select :retraction, agent_id, 'a.example', '*.a.example', 'no', clock_timestamp(), clock_timestamp()
    from sources where id = :source""",
    """update agents set barred_domains = '{a.example}'
    where id = (select agent_id from sources where id = :source)""",
    "insert into retracted_sources (retraction_id, source_id, is_due) values (:retraction, :source, true)",
    """update sources set retraction_reason = 'no',
      retracted_at = (select created_at from retractions where id = :retraction) where id = :source""",
)
_CONTRADICTED: Final = """
insert into entailment_verdicts (evidence_id, agent_id, verdict, reason, model, call_id, step_id, due_at)
values (:evidence, :agent, 'contradicted', 'no', 'm', gen_random_uuid(), gen_random_uuid(), clock_timestamp())
"""
_DOUBTED: Final = (
    """insert into doubts (id, conclusion_id, element_id, source_id, since)
    values (gen_random_uuid(), :analysis, :ghana, :source, '2026-01-01')""",
    "update graph_nodes set updated_at = clock_timestamp() where id = :ghana",
)
_LIFTED: Final = (*_DOUBTED, "update doubts set resolved_at = clock_timestamp()")
_WRONG: Final = """
update graph_nodes set properties = properties || '{"population"\\: 5}' where id = :ghana
"""
_BEGUN: Final = (
    """insert into validity_boundaries (evidence_id, moment, agent_id, due_at)
    values (:evidence, '2026-01-01', :agent, '2026-01-01')""",
    _WRONG,
)
_WITHOUT_TYPES: Final = (
    "delete from graph_edge_types where created_by = 'system'",
    "update graph_node_types set properties_schema = '{}' where created_by = 'system'",
)

_OPERATIONS: Final[Mapping[Any, Any]] = {
    # elements
    elements.add_node: (
        Operation(lambda w, t: w.add_node(t, "Mali"), case="new", again=Again.JOURNAL),
        Operation(
            lambda w, t: w.add_node(t, "Ghana", population=2), case="known", again=Again.JOURNAL
        ),
    ),
    elements.add_edge: (
        Operation(lambda w, t: w.add_edge(t, w.togo, w.chad), case="new", again=Again.JOURNAL),
        Operation(
            lambda w, t: w.add_edge(t, w.ghana, w.togo),
            case="known",
            again=Again.JOURNAL,
            prepare=["delete from evidence where edge_id is not null"],
        ),
    ),
    elements.link_analysis: Operation(_link_analysis, again=Again.JOURNAL),
    ElementBuffer.add_to: (
        Operation(alone=_write_buffered, case="of facts", again=Again.JOURNAL),
        Operation(alone=_write_conclusions_buffered, case="of conclusions", again=ToolRefusalError),
    ),
    projection.reproject: Operation(
        lambda w, t: projection.reproject(t, w.scope, EDGES, w.border),
        prepare=["update graph_edges set seal = null"],
    ),
    projection.reproject_all: Operation(
        lambda w, t: projection.reproject_all(t, w.scope, NODES, [w.ghana, w.togo]),
        prepare=_RETRACTED,
    ),
    # types
    types.create_node_type: Operation(_create_node_type),
    types.create_edge_type: Operation(_create_edge_type),
    system_types.ensure_query: Operation(
        query=lambda w: system_types.ensure_query(w.agent_id), prepare=_WITHOUT_TYPES
    ),
    # conclusions
    conclusions.add_analysis: Operation(_add_analysis, again=ToolRefusalError),
    conclusions.add_advice: Operation(_add_advice, again=ToolRefusalError),
    reviews.review_advice: Operation(
        lambda w, t: _review(w, t, Review.CONFIRMS), again=Again.WRITES
    ),
    position_store.end: Operation(
        lambda w, t: _review(w, t, Review.WITHDRAWS), again=ToolRefusalError
    ),
    position_store.enter_missing: Operation(
        lambda w, t: position_store.enter_missing(t, w.scope), prepare=["delete from positions"]
    ),
    citation_index.store_missing_citations: Operation(
        lambda w, t: citation_index.store_missing_citations(t, w.agent_id),
        prepare=["delete from citations"],
    ),
    # pages and evidence
    sources.store_pages: Operation(
        lambda w, t: sources.store_pages(t, w.scope, {"results": [OTHER_PAGE]})
    ),
    readings.store_verdicts: Operation(
        query=lambda w: readings.store_verdicts(
            w.scope,
            Findings(
                Material(),
                "m",
                w.attempt.call_id,
                1,
                claims={(w.evidence, "population"): ClaimFinding(Entailment.CONTRADICTED, "no")},
            ),
        )
    ),
    # retractions
    retractions.retract_source: Operation(
        lambda w, t: retractions.retract_source(t, w.scope, PAGE["url"], "made up")
    ),
    retractions.bar_site: Operation(
        lambda w, t: retractions.bar_site(t, w.scope, site_of(PAGE["url"]), "made up")
    ),
    retractions.restore_source: Operation(
        lambda w, t: retractions.restore_source(t, w.scope, RETRACTION), prepare=_RETRACTED
    ),
    propagation.propagate_retractions: Operation(
        alone=lambda w: propagation.propagate_retractions(w.database, at_once=6),
        prepare=_RETRACTED,
        is_batched=True,
    ),
    propagation.propagate_refusals: Operation(
        alone=lambda w: propagation.propagate_refusals(w.database),
        prepare=[_CONTRADICTED],
        is_batched=True,
    ),
    propagation.resolve_doubts: Operation(
        alone=lambda w: propagation.resolve_doubts(w.database), prepare=_DOUBTED, is_batched=True
    ),
    validity.apply_boundaries: Operation(
        alone=lambda w: validity.apply_boundaries(w.database), prepare=_BEGUN, is_batched=True
    ),
    validity.make_all_due: Operation(
        lambda w, t: validity.make_all_due(t, w.agent_id), prepare=_BEGUN
    ),
    doubts.close_doubts: Operation(
        lambda w, t: doubts.close_doubts(t, [w.source]), prepare=_DOUBTED
    ),
    doubts.transfer_doubts: Operation(
        lambda w, t: doubts.transfer_doubts(t, {w.ghana: [w.togo]}), prepare=_DOUBTED
    ),
    doubts.reopen_doubts: Operation(
        lambda w, t: doubts.reopen_doubts(t, [w.ghana], w.iteration.started_at), prepare=_LIFTED
    ),
    # entity resolution
    merge.merge_nodes: Operation(_merge),
    split.split_node: Operation(_split, again=MergeRefusedError),
    merge.undo_merge: Operation(lambda w, t: merge.undo_merge(t, w.scope, w.made_merge.id)),
    merge.insert_redirects: Operation(
        lambda w, t: merge.insert_redirects(t, w.made_merge, {uuid4(): w.chad}),
        again=Again.WRITES,
    ),
    distinct.declare_distinct: Operation(
        lambda w, t: distinct.declare_distinct(t, w.scope, (w.togo, w.ghana), w.scope.owner_id)
    ),
    distinct.forget_distinct: Operation(lambda w, t: distinct.forget_distinct(t, w.scope, w.pair)),
    # short ids
    ShortIds.store_numbers: Operation(
        lambda w, t: ShortIds(w.scope).store_numbers(t, [f"[node:{w.ghana}] [edge:{w.border}]"])
    ),
    ShortIds.number_with: Operation(_number_with),
    # embeddings
    EmbeddingBatch.store: Operation(lambda w, t: _embeddings(w).store(t, [VECTOR])),
    Sweep.store: Operation(lambda w, t: _sweep(w).store(_embeddings(w), t, [VECTOR])),
    Sweep.end: Operation(lambda w, t: _sweep(w).end(t)),
    embedding_backlog.rewind_sweep: Operation(
        lambda w, t: embedding_backlog.rewind_sweep(t, w.scope, [w.ghana]),
        prepare=[
            """insert into embedding_progress (agent_id, model, through_at, through_id)
            values (:agent, 'm', clock_timestamp(), gen_random_uuid())"""
        ],
    ),
    # transfer
    importer.import_graph: Operation(_import, again=BadFileError),
}
_READS: Final = {
    citation_index.list_citing_conclusions,
    citation_index.load_cited_labels,
    conclusions.prepare_lookups,
    distinct.distinct_nodes,
    doubts.doubted_since,
    doubts.foresee_retraction,
    doubts.list_doubts,
    doubts.pending_doubts,
    elements.ends_query,
    elements.existing_ids,
    embedding_backlog.plan_step_batches,
    embedding_backlog.plan_sweep,
    importer.load_quotes,
    position_store.ended_query,
    position_store.has_missing,
    position_store.load_responses,
    position_store.positions_query,
    position_store.load_lines,
    position_store.load_ties,
    position_store.prepare_open,
    projection.load_claims,
    projection.lock_elements,
    readings.new_evidence,
    retractions.find_page,
    retractions.find_site,
    short_ids.elements_query,
    ShortIds.load,
    sources.find_pages,
    sources.known_pages,
    sources.list_recent_urls,
    sources.load_text,
    sources.pages_query,
    sources.remember_pages,
    types.edge_rules_query,
    types.get_edge_rules,
    types.get_edge_type,
    types.get_node_schema,
    types.get_node_type,
    types.list_edge_types,
    types.list_node_types,
    types.node_schemas_query,
    types.node_types_query,
    types.remember_types,
    upsert.element_buffer,
    Element.lock_row,
    importer.IdMap.find,
    importer.IdMap.new_ids,
}
_FRAMES: Final = {
    conclusions.message_query,
    doubts.reevaluate_doubts,
    doubts.resolve_doubts,
    Element.insert,
    Element.update,
    importer.copy_rows,
    importer.GraphImport.run,
    importer.IdMap.add,
    importer.IdMap.begin,
    importer.store_doubts,
    importer.store_positions,
    importer.store_proofs,
    importer.store_retractions,
    merge.reserve_own_name,
    merge.store_redirects,
    moving.insert_row,
    moving.load_rows,
    moving.move_edge,
    moving.move_edge_back,
    moving.move_evidence,
    moving.restore_element,
    moving.restore_kept,
    moving.set_properties,
    position_store.confirm,
    position_store.load_open,
    position_store.take,
    propagation.notify_refusals,
    propagation.notify_new_doubts,
    propagation.notify_resolved_doubts,
    propagation.resolve_notices,
    sources.page_storing,
    system_types.ensure_system_types,
    upsert.buffering,
    upsert.upsert_element,
}
_STORES: Final = (
    elements,
    upsert,
    projection,
    types,
    system_types,
    conclusions,
    citation_index,
    position_store,
    reviews,
    sources,
    readings,
    retractions,
    propagation,
    validity,
    doubts,
    merge,
    moving,
    split,
    distinct,
    short_ids,
    embedding_backlog,
    importer,
)

GRAPH: Final = Part(
    "graph",
    _make_world,
    _STORES,
    _OPERATIONS,
    _READS,
    _FRAMES,
    short_faults=[Fault.LOST_BEFORE, Fault.LOST_AFTER],
)
