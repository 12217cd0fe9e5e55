"""Unauthorized changes to a graph and its pages: each mutation changes one random row."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select

from shared.database.tables import Evidence, GraphEdge, GraphNode, GraphNodeType, Source
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.citations import Citation, Kind, parse_citations
from shared.graph.provenance import integrity
from shared.graph.types import RESERVED_TYPES
from tests.support.graph.random_rows import Chance

Mutation = Callable[[Chance], Awaitable[UUID]]


async def _flip_a_byte_of_a_page(chance: Chance) -> UUID:
    row = await chance.random_row(Source)
    return await chance.set(row, text=chance.edit_text(row.text))


async def _change_a_page_url(chance: Chance) -> UUID:
    row = await chance.random_row(Source)
    return await chance.set(row, url=chance.edit_text(row.url))


async def _rename_a_page(chance: Chance) -> UUID:
    row = await chance.random_row(Source)
    return await chance.set(row, title=chance.edit_text(row.title or ""))


async def _change_a_page_date(chance: Chance) -> UUID:
    row = await chance.random_row(Source)
    if row.published is not None and chance.random.random() < 0.3:
        return await chance.set(row, published=None)
    return await chance.set(
        row, published=(row.published or row.fetched_at) + chance.random_interval()
    )


async def _fetch_a_page_at_another_time(chance: Chance) -> UUID:
    row = await chance.random_row(Source)
    return await chance.set(row, fetched_at=row.fetched_at - chance.random_interval())


async def _swap_a_page_and_its_hash(chance: Chance) -> UUID:
    """Simulates an attacker who also replaces the hash."""
    row = await chance.random_row(Source)
    text = chance.edit_text(row.text)
    return await chance.set(row, text=text, sha256=integrity.sha256(text))


async def _drop_a_quoted_page(chance: Chance) -> UUID:
    quoted = select(Evidence.source_id)
    return await chance.drop(await chance.random_row(Source, Source.id.in_(quoted)))


async def _move_a_span(chance: Chance) -> UUID:
    row = await chance.random_row(Evidence)
    by = chance.random.choice([-3, -1, 1, 2, 10_000])  # bytes
    shifts = [
        {"first_byte": row.first_byte + by},
        {"end_byte": row.end_byte + by},
        {"first_byte": row.first_byte + by, "end_byte": row.end_byte + by},
    ]
    spans = [{"first_byte": row.first_byte, "end_byte": row.end_byte} | shift for shift in shifts]
    valid_spans = [span for span in spans if 0 <= span["first_byte"] < span["end_byte"]]
    return await chance.set(row, **chance.random.choice(valid_spans))


async def _change_a_quotes_hash(chance: Chance) -> UUID:
    row = await chance.random_row(Evidence)
    return await chance.set(row, quote_sha256=bytes(reversed(row.quote_sha256)))


async def _change_a_claim(chance: Chance) -> UUID:
    row = await chance.random_row(Evidence)
    return await chance.set(row, claims=chance.change_properties(row.claims))


async def _change_the_time_of_a_claim(chance: Chance) -> UUID:
    row = await chance.random_row(Evidence)
    column = chance.random.choice(["valid_from", "valid_to", "as_of", "learned_at"])
    moment = getattr(row, column) or row.learned_at
    return await chance.set(row, **{column: moment + chance.random_interval()})


async def _change_a_speaker(chance: Chance) -> UUID:
    row = await chance.random_row(Evidence)
    speakers = {None, "Ada Roe", "Ben Poe"} - {row.speaker}
    return await chance.set(row, speaker=chance.random.choice(sorted(speakers, key=str)))


async def _drop_an_evidence(chance: Chance) -> UUID:
    return await chance.drop(await chance.random_row(Evidence))


async def _redirect_an_evidence(chance: Chance) -> UUID:
    """Moves it to another page or to another node."""
    row = await chance.random_row(Evidence)
    if chance.random.random() < 0.5:
        other = await chance.random_row(Source, Source.id != row.source_id)
        return await chance.set(row, source_id=other.id)
    other = await chance.random_row(GraphNode, GraphNode.id != row.node_id if row.node_id else True)  # type: ignore[arg-type]  # SQL takes it
    return await chance.set(row, node_id=other.id, edge_id=None)


async def _change_a_property_of_a_node(chance: Chance) -> UUID:
    row = await chance.random_fact()
    return await chance.set(row, properties=chance.change_properties(row.properties))


async def _change_a_property_of_an_edge(chance: Chance) -> UUID:
    row = await chance.random_row(GraphEdge)
    return await chance.set(row, properties=chance.change_properties(row.properties))


async def _rename_a_node(chance: Chance) -> UUID:
    row = await chance.random_row(GraphNode)
    return await chance.set(row, name=f"{chance.edit_text(row.name)} {chance.random.random()}")


async def _change_a_nodes_type(chance: Chance) -> UUID:
    row = await chance.random_row(GraphNode)
    types = await chance.session.scalars(
        select(GraphNodeType.name)
        .where(GraphNodeType.agent_id == chance.agent_id, GraphNodeType.name != row.type)
        .order_by(GraphNodeType.name)
    )
    return await chance.set(row, type=chance.random.choice(types.all()))


async def _change_an_edges_type(chance: Chance) -> UUID:
    row = await chance.random_row(GraphEdge)
    return await chance.set(row, type="about" if row.type != "about" else "borders")


async def _redirect_an_edge(chance: Chance) -> UUID:
    row = await chance.random_row(GraphEdge)
    ends = (row.source_id, row.target_id)
    other = await chance.random_row(GraphNode, GraphNode.id.not_in(ends))
    column = chance.random.choice(["source_id", "target_id"])
    existing_id = await chance.session.scalar(
        select(GraphEdge.id).where(
            GraphEdge.type == row.type,
            GraphEdge.source_id == (other.id if column == "source_id" else row.source_id),
            GraphEdge.target_id == (other.id if column == "target_id" else row.target_id),
        )
    )
    if existing_id is not None:
        return await chance.set(row, source_id=row.target_id, target_id=row.source_id)
    return await chance.set(row, **{column: other.id})


async def _redirect_a_citation(chance: Chance) -> UUID:
    """Points a citation to another element of the same kind."""
    row = await chance.random_conclusion()
    content = row.properties["content"]
    old = chance.random.choice(parse_citations(content).citations)
    if old.kind is Kind.EDGE:
        other = await chance.random_row(GraphEdge, GraphEdge.id != old.id)
    else:
        is_analysis = GraphNode.type == ANALYSIS_TYPE
        kind = is_analysis if row.type == ADVICE_TYPE else GraphNode.type.not_in(RESERVED_TYPES)
        other = await chance.random_row(GraphNode, GraphNode.id != old.id, kind)
    new_content = content.replace(str(old), str(Citation(old.kind, other.id)))
    return await chance.set(row, properties={**row.properties, "content": new_content})


async def _edit_a_conclusion(chance: Chance) -> UUID:
    row = await chance.random_conclusion()
    name = chance.random.choice(["content", "summary"])
    text = {name: chance.edit_text(row.properties[name])}
    return await chance.set(row, properties={**row.properties, **text})


async def _change_another_property_of_a_conclusion(chance: Chance) -> UUID:
    row = await chance.random_conclusion()
    name = chance.random.choice(sorted(row.properties.keys() - {"content", "summary"}))
    value = {name: chance.different_value(row.properties[name])}
    return await chance.set(row, properties={**row.properties, **value})


async def _drop_a_cited_element(chance: Chance) -> UUID:
    conclusion = await chance.random_conclusion()
    citation = chance.random.choice(parse_citations(conclusion.properties["content"]).citations)
    table = GraphNode if citation.kind is Kind.NODE else GraphEdge
    return await chance.drop(await chance.random_row(table, table.id == citation.id))


async def _break_a_seal(chance: Chance) -> UUID:
    row = await chance.random_row(chance.random.choice(_SEALED))
    return await chance.set(row, seal=bytes(reversed(row.seal)))


async def _remove_a_seal(chance: Chance) -> UUID:
    return await chance.set(
        await chance.random_row(chance.random.choice([GraphNode, GraphEdge])), seal=None
    )


_SEALED: Final[Sequence[type[Any]]] = (Source, Evidence, GraphNode, GraphEdge)
MUTATIONS: Final[Sequence[Mutation]] = (
    _flip_a_byte_of_a_page,
    _change_a_page_url,
    _rename_a_page,
    _change_a_page_date,
    _fetch_a_page_at_another_time,
    _swap_a_page_and_its_hash,
    _drop_a_quoted_page,
    _move_a_span,
    _change_a_quotes_hash,
    _change_a_claim,
    _change_the_time_of_a_claim,
    _change_a_speaker,
    _drop_an_evidence,
    _redirect_an_evidence,
    _change_a_property_of_a_node,
    _change_a_property_of_an_edge,
    _rename_a_node,
    _change_a_nodes_type,
    _change_an_edges_type,
    _redirect_an_edge,
    _redirect_a_citation,
    _edit_a_conclusion,
    _change_another_property_of_a_conclusion,
    _drop_a_cited_element,
    _break_a_seal,
    _remove_a_seal,
)


def name_of(mutation: Mutation) -> str:
    return mutation.__name__.strip("_").replace("_", " ")
