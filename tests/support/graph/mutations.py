"""Whatever can be changed in a graph and its pages behind Vigil's back: each kind changes one row at random."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select

from shared.database.tables import Evidence, GraphEdge, GraphNode, GraphNodeType, Source
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.citations import Citation, Kind, parse_citations
from shared.graph.provenance import integrity
from shared.graph.types import RESERVED_TYPES
from tests.support.graph.chance import Chance

Mutation = Callable[[Chance], Awaitable[UUID]]


async def _flip_a_byte_of_a_page(chance: Chance) -> UUID:
    row = await chance.one(Source)
    return await chance.set(row, text=chance.edited(row.text))


async def _move_a_page(chance: Chance) -> UUID:
    row = await chance.one(Source)
    return await chance.set(row, url=chance.edited(row.url))


async def _rename_a_page(chance: Chance) -> UUID:
    row = await chance.one(Source)
    return await chance.set(row, title=chance.edited(row.title or ""))


async def _date_a_page(chance: Chance) -> UUID:
    row = await chance.one(Source)
    if row.published is not None and chance.random.random() < 0.3:
        return await chance.set(row, published=None)
    return await chance.set(row, published=(row.published or row.fetched_at) + chance.span())


async def _fetch_a_page_at_another_time(chance: Chance) -> UUID:
    row = await chance.one(Source)
    return await chance.set(row, fetched_at=row.fetched_at - chance.span())


async def _swap_a_page_and_its_hash(chance: Chance) -> UUID:
    """As somebody would who knows what a hash is."""
    row = await chance.one(Source)
    text = chance.edited(row.text)
    return await chance.set(row, text=text, sha256=integrity.sha256(text))


async def _drop_a_quoted_page(chance: Chance) -> UUID:
    quoted = select(Evidence.source_id)
    return await chance.drop(await chance.one(Source, Source.id.in_(quoted)))


async def _move_a_span(chance: Chance) -> UUID:
    row = await chance.one(Evidence)
    by = chance.random.choice([-3, -1, 1, 2, 10_000])  # bytes
    ways = [
        {"first_byte": row.first_byte + by},
        {"end_byte": row.end_byte + by},
        {"first_byte": row.first_byte + by, "end_byte": row.end_byte + by},
    ]
    spans = [{"first_byte": row.first_byte, "end_byte": row.end_byte} | way for way in ways]
    can_be = [span for span in spans if 0 <= span["first_byte"] < span["end_byte"]]
    return await chance.set(row, **chance.random.choice(can_be))


async def _change_a_quotes_hash(chance: Chance) -> UUID:
    row = await chance.one(Evidence)
    return await chance.set(row, quote_sha256=bytes(reversed(row.quote_sha256)))


async def _change_a_claim(chance: Chance) -> UUID:
    row = await chance.one(Evidence)
    return await chance.set(row, claims=chance.changed(row.claims))


async def _change_when_a_claim_holds(chance: Chance) -> UUID:
    row = await chance.one(Evidence)
    column = chance.random.choice(["valid_from", "valid_to", "as_of", "learned_at"])
    moment = getattr(row, column) or row.learned_at
    return await chance.set(row, **{column: moment + chance.span()})


async def _drop_an_evidence(chance: Chance) -> UUID:
    return await chance.drop(await chance.one(Evidence))


async def _redirect_an_evidence(chance: Chance) -> UUID:
    """To another page, or to another node."""
    row = await chance.one(Evidence)
    if chance.random.random() < 0.5:
        other = await chance.one(Source, Source.id != row.source_id)
        return await chance.set(row, source_id=other.id)
    other = await chance.one(GraphNode, GraphNode.id != row.node_id if row.node_id else True)  # type: ignore[arg-type]  # SQL takes it
    return await chance.set(row, node_id=other.id, edge_id=None)


async def _change_a_property_of_a_node(chance: Chance) -> UUID:
    row = await chance.fact()
    return await chance.set(row, properties=chance.changed(row.properties))


async def _change_a_property_of_an_edge(chance: Chance) -> UUID:
    row = await chance.one(GraphEdge)
    return await chance.set(row, properties=chance.changed(row.properties))


async def _rename_a_node(chance: Chance) -> UUID:
    row = await chance.one(GraphNode)
    return await chance.set(row, name=f"{chance.edited(row.name)} {chance.random.random()}")


async def _change_a_nodes_type(chance: Chance) -> UUID:
    row = await chance.one(GraphNode)
    types = await chance.session.scalars(
        select(GraphNodeType.name)
        .where(GraphNodeType.agent_id == chance.agent_id, GraphNodeType.name != row.type)
        .order_by(GraphNodeType.name)
    )
    return await chance.set(row, type=chance.random.choice(types.all()))


async def _change_an_edges_type(chance: Chance) -> UUID:
    row = await chance.one(GraphEdge)
    return await chance.set(row, type="about" if row.type != "about" else "borders")


async def _redirect_an_edge(chance: Chance) -> UUID:
    row = await chance.one(GraphEdge)
    ends = (row.source_id, row.target_id)
    other = await chance.one(GraphNode, GraphNode.id.not_in(ends))
    column = chance.random.choice(["source_id", "target_id"])
    taken = await chance.session.scalar(
        select(GraphEdge.id).where(
            GraphEdge.type == row.type,
            GraphEdge.source_id == (other.id if column == "source_id" else row.source_id),
            GraphEdge.target_id == (other.id if column == "target_id" else row.target_id),
        )
    )
    if taken is not None:
        return await chance.set(row, source_id=row.target_id, target_id=row.source_id)
    return await chance.set(row, **{column: other.id})


async def _turn_a_cited_id(chance: Chance) -> UUID:
    """A citation leads to another thing of the same kind."""
    row = await chance.conclusion()
    content = row.properties["content"]
    old = chance.random.choice(parse_citations(content).citations)
    if old.kind is Kind.EDGE:
        other = await chance.one(GraphEdge, GraphEdge.id != old.id)
    else:
        is_analysis = GraphNode.type == ANALYSIS_TYPE
        kind = is_analysis if row.type == ADVICE_TYPE else GraphNode.type.not_in(RESERVED_TYPES)
        other = await chance.one(GraphNode, GraphNode.id != old.id, kind)
    turned = content.replace(str(old), str(Citation(old.kind, other.id)))
    return await chance.set(row, properties={**row.properties, "content": turned})


async def _edit_a_conclusion(chance: Chance) -> UUID:
    row = await chance.conclusion()
    name = chance.random.choice(["content", "summary"])
    text = {name: chance.edited(row.properties[name])}
    return await chance.set(row, properties={**row.properties, **text})


async def _change_another_property_of_a_conclusion(chance: Chance) -> UUID:
    row = await chance.conclusion()
    name = chance.random.choice(sorted(row.properties.keys() - {"content", "summary"}))
    value = {name: chance.otherwise(row.properties[name])}
    return await chance.set(row, properties={**row.properties, **value})


async def _drop_what_is_cited(chance: Chance) -> UUID:
    conclusion = await chance.conclusion()
    cited = chance.random.choice(parse_citations(conclusion.properties["content"]).citations)
    table = GraphNode if cited.kind is Kind.NODE else GraphEdge
    return await chance.drop(await chance.one(table, table.id == cited.id))


async def _break_a_seal(chance: Chance) -> UUID:
    row = await chance.one(chance.random.choice(_SEALED))
    return await chance.set(row, seal=bytes(reversed(row.seal)))


async def _take_a_seal_away(chance: Chance) -> UUID:
    return await chance.set(
        await chance.one(chance.random.choice([GraphNode, GraphEdge])), seal=None
    )


_SEALED: Final[Sequence[type[Any]]] = (Source, Evidence, GraphNode, GraphEdge)
MUTATIONS: Final[Sequence[Mutation]] = (
    _flip_a_byte_of_a_page,
    _move_a_page,
    _rename_a_page,
    _date_a_page,
    _fetch_a_page_at_another_time,
    _swap_a_page_and_its_hash,
    _drop_a_quoted_page,
    _move_a_span,
    _change_a_quotes_hash,
    _change_a_claim,
    _change_when_a_claim_holds,
    _drop_an_evidence,
    _redirect_an_evidence,
    _change_a_property_of_a_node,
    _change_a_property_of_an_edge,
    _rename_a_node,
    _change_a_nodes_type,
    _change_an_edges_type,
    _redirect_an_edge,
    _turn_a_cited_id,
    _edit_a_conclusion,
    _change_another_property_of_a_conclusion,
    _drop_what_is_cited,
    _break_a_seal,
    _take_a_seal_away,
)


def name_of(mutation: Mutation) -> str:
    return mutation.__name__.strip("_").replace("_", " ")
