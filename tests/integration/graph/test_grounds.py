"""What may be written rests on a quote, and what does not is refused in words that mend it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import func, select, update

from shared.database.tables import Evidence, GraphEdge, GraphNode, Source
from shared.errors import TransientError
from shared.graph import edges, nodes
from shared.graph.provenance import evidence as grounds
from shared.graph.provenance import integrity
from shared.graph.provenance.evidence import EvidenceInput, VerifiedQuote
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.scope import GraphScope
from shared.graph.upsert import UpsertResult
from shared.tools import Json, ToolRefusalError
from tests.support.graph.world import COUNTRY, GROUNDS, World

URL = "https://press.example/ghana"
TEXT = (
    "Ghana – “Gold Coast” – has 33 million people.\n"
    "Its capital is Accra; the cedi is its money.\n\n"
    "Cocoa output fell to 530,000 tonnes in 2024."
)
CAPITAL = "Its capital is Accra"
PEOPLE = 'Ghana - "Gold Coast" - has 33 million people.'


@pytest.fixture
async def ghana(world: World) -> World:
    """Who has read a page about Ghana."""
    await world.read({"results": [{"url": URL, "content": TEXT, "published_date": "2024-05-01"}]})
    return world


async def add(
    world: World, *grounds: EvidenceInput, scope: GraphScope | None = None, **more: Any
) -> UpsertResult:
    properties: Json = {**COUNTRY, **more}
    async with world.database.transaction() as session:
        return await nodes.add_node(
            session,
            scope or world.scope,
            world.validators,
            type_name="Country",
            name="Ghana",
            properties=properties,
            grounds=grounds,
        )


async def evidence_of(world: World, thing: UpsertResult) -> list[Evidence]:
    async with world.database.transaction() as session:
        found = await session.scalars(
            select(Evidence)
            .where(func.coalesce(Evidence.node_id, Evidence.edge_id) == thing.id)
            .order_by(Evidence.first_byte, Evidence.as_of)
        )
        return list(found)


async def written(world: World) -> tuple[int, int, int]:
    async with world.database.transaction() as session:
        counts = [
            await session.scalar(select(func.count()).select_from(table))
            for table in (GraphNode, GraphEdge, Evidence)
        ]
    return counts[0] or 0, counts[1] or 0, counts[2] or 0


async def test_a_quote_is_kept_as_the_bytes_it_stands_in(ghana: World) -> None:
    added = await add(
        ghana,
        EvidenceInput(URL, PEOPLE, ("summary", "population")),
        EvidenceInput(URL, f"  {CAPITAL}; the\ncedi", ("capital",)),
        population=33,
        capital="Accra",
    )
    people, capital = await evidence_of(ghana, added)
    page = TEXT.encode()
    assert page[people.first_byte : people.end_byte].decode() == TEXT.splitlines()[0]
    assert page[capital.first_byte : capital.end_byte] == b"Its capital is Accra; the cedi"
    assert people.claims == {**COUNTRY, "population": 33}
    assert capital.claims == {"capital": "Accra"}
    assert capital.quote_sha256 == integrity.sha256("Its capital is Accra; the cedi")
    assert {people.as_of, capital.as_of} == {datetime(2024, 5, 1, tzinfo=UTC)}


async def test_all_that_is_written_is_sealed(ghana: World) -> None:
    added = await add(
        ghana,
        EvidenceInput(URL, PEOPLE),
        EvidenceInput(URL, CAPITAL, ("capital",)),
        capital="Accra",
    )
    rows = await evidence_of(ghana, added)
    async with ghana.database.transaction() as session:
        node = await session.get_one(GraphNode, added.id)
        source = (await session.scalars(select(Source).where(Source.url == URL))).one()
    assert node.seal == integrity.node_seal(
        node_id=node.id,
        agent_id=node.agent_id,
        type_name="Country",
        name="Ghana",
        properties=node.properties,
        evidence=[row.id for row in rows],
    )
    for row in rows:
        assert row.source_id == source.id
        assert row.seal == integrity.evidence_seal(
            evidence_id=row.id,
            element_id=node.id,
            **{
                column: getattr(row, column)
                for column in (
                    *("agent_id", "source_id", "first_byte", "end_byte", "quote_sha256"),
                    *("claims", "valid_from", "valid_to", "as_of", "learned_at"),
                )
            },
        )


async def test_what_no_other_names_rests_on_those_that_name_nothing(ghana: World) -> None:
    added = await add(
        ghana,
        EvidenceInput(URL, CAPITAL, ("capital",)),
        EvidenceInput(URL, PEOPLE),
        EvidenceInput(URL, "Cocoa output fell", ()),
        capital="Accra",
        population=33,
    )
    people, capital, cocoa = await evidence_of(ghana, added)
    assert people.claims == {**COUNTRY, "population": 33}
    assert (capital.claims, cocoa.claims) == ({"capital": "Accra"}, {})


@pytest.mark.parametrize(
    ("grounds", "reason"),
    [
        ([], "evidence: 0 entries; give 1 to 10"),
        ([EvidenceInput(URL, PEOPLE)] * 11, "evidence: 11 entries"),
        ([EvidenceInput(URL, CAPITAL, ("capital",))], "No evidence for summary: add an entry"),
        (
            [EvidenceInput(URL, PEOPLE), EvidenceInput(URL, CAPITAL, ("area",))],
            "area, which is not among",
        ),
        ([EvidenceInput(URL, "cocoa")], r"evidence\[0\].quote: 5 characters; quote 8 to 1000"),
        ([EvidenceInput(URL, "x" * 1_001)], "1001 characters"),
        ([EvidenceInput(URL, " " * 20)], "0 characters"),
        ([EvidenceInput(URL, "a\x00bcdefgh")], r"evidence\[0\]\[1\]: holds U\+0000"),
        (
            [EvidenceInput(URL, PEOPLE), EvidenceInput(URL, "Cocoa output rose")],
            r"evidence\[1\].quote: it does not",
        ),
        (
            [EvidenceInput(URL, "its capital is accra")],
            "The nearest sentence is: 'Its capital is Accra; the cedi",
        ),
        (
            [EvidenceInput(URL, "Cocoa output fell to 350,000 tonnes in 2024.")],
            "fell to 530,000 tonnes",
        ),
        (
            [EvidenceInput(URL, "Zebras zigzag, quizzically")],
            "Nothing there is similar. Quote a sentence",
        ),
        (
            [EvidenceInput("https://press.example/togo", PEOPLE)],
            f"no page was read at .*\n{URL}\nhttps://atlas",
        ),
        (
            [
                EvidenceInput(
                    URL,
                    PEOPLE,
                    valid_from=datetime(2024, 1, 1, tzinfo=UTC),
                    valid_to=datetime(2023, 1, 1, tzinfo=UTC),
                )
            ],
            "validTo is before validFrom",
        ),
    ],
)
async def test_what_rests_on_nothing_is_refused_and_nothing_of_it_written(
    ghana: World, grounds: list[EvidenceInput], reason: str
) -> None:
    with pytest.raises(ToolRefusalError, match=reason):
        await add(ghana, *grounds, capital="Accra")
    assert await written(ghana) == (0, 0, 0)


async def test_on_a_retracted_page_nothing_can_rest(ghana: World) -> None:
    async with ghana.database.transaction() as session:
        await session.execute(
            update(Source)
            .where(Source.url == URL)
            .values(retracted_at=func.clock_timestamp(), retraction_reason="It was made up")
        )
    with pytest.raises(ToolRefusalError, match="this page is retracted: It was made up"):
        await add(ghana, EvidenceInput(URL, PEOPLE))
    assert await written(ghana) == (0, 0, 0)


async def test_a_page_that_is_retracted_while_it_is_quoted_is_seen(
    ghana: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = grounds.verify_quotes

    async def found_and_retracted(*given: Any) -> list[VerifiedQuote]:
        found = await look_up(*given)
        async with ghana.database.transaction() as session:
            await retractions.retract_source(session, ghana.scope, URL, "It was made up")
        await propagate_retractions(ghana.database)
        return found

    monkeypatch.setattr(grounds, "verify_quotes", found_and_retracted)
    with pytest.raises(TransientError, match="was retracted while it was quoted"):
        await add(ghana, EvidenceInput(URL, PEOPLE))
    monkeypatch.undo()
    assert await written(ghana) == (0, 0, 0)
    with pytest.raises(ToolRefusalError, match="this page is retracted: It was made up"):
        await add(ghana, EvidenceInput(URL, PEOPLE))


async def test_a_quote_may_stand_in_any_version_of_a_page(ghana: World) -> None:
    await ghana.read({"results": [{"url": URL, "content": "The page has moved elsewhere."}]})
    added = await add(
        ghana, EvidenceInput(URL, PEOPLE), EvidenceInput(URL, "The page has moved", ())
    )
    assert len({row.source_id for row in await evidence_of(ghana, added)}) == 2


async def test_on_pages_of_others_nothing_can_rest(ghana: World, stranger: World) -> None:
    await stranger.node_type("River")
    with pytest.raises(ToolRefusalError, match="no page was read at"):
        await add(stranger, EvidenceInput(URL, PEOPLE))
    assert await written(ghana) == (0, 0, 0)


async def test_the_same_evidence_is_kept_once(ghana: World) -> None:
    first = await add(ghana, EvidenceInput(URL, PEOPLE))
    known = [(row.id, row.learned_at) for row in await evidence_of(ghana, first)]
    again = await add(
        ghana, EvidenceInput(URL, PEOPLE), EvidenceInput(f"{URL}/#people", f" {PEOPLE} ")
    )
    assert (again.id, again.created, again.tool_answer) == (first.id, False, {"created": False})
    assert [(row.id, row.learned_at) for row in await evidence_of(ghana, first)] == known


async def test_what_contradicts_the_schema_is_refused_with_its_evidence(ghana: World) -> None:
    await add(ghana, EvidenceInput(URL, PEOPLE))
    before = await written(ghana)
    with pytest.raises(ToolRefusalError, match="'many' is not of type 'integer'"):
        await add(ghana, EvidenceInput(URL, CAPITAL), population="many")
    assert await written(ghana) == before


async def connect(
    world: World, *ends: Any, grounds: Any = GROUNDS, **properties: Any
) -> UpsertResult:
    async with world.database.transaction() as session:
        return await edges.add_edge(
            session,
            world.scope,
            world.validators,
            type_name="borders",
            source_id=ends[0],
            target_id=ends[1],
            properties=properties,
            grounds=grounds,
        )


async def test_an_edge_rests_on_quotes_too(ghana: World) -> None:
    ends = [await ghana.node(name) for name in ("Ghana", "Togo")]
    with pytest.raises(ToolRefusalError, match="evidence: 0 entries"):
        await connect(ghana, *ends, grounds=())
    with pytest.raises(ToolRefusalError, match="No evidence for length_km"):
        await connect(ghana, *ends, grounds=[EvidenceInput(URL, CAPITAL, ())], length_km=1098)
    bare = await connect(ghana, *ends, grounds=[EvidenceInput(URL, CAPITAL)])
    more = await connect(ghana, *ends, grounds=[EvidenceInput(URL, PEOPLE)], length_km=1098)
    people, capital = await evidence_of(ghana, bare)
    assert (bare.id, capital.claims, people.claims) == (more.id, {}, {"length_km": 1098})
    async with ghana.database.transaction() as session:
        edge = await session.get_one(GraphEdge, bare.id)
    assert edge.properties == {"length_km": 1098}
    assert edge.seal == integrity.edge_seal(
        edge_id=edge.id,
        agent_id=edge.agent_id,
        type_name="borders",
        source_id=ends[0],
        target_id=ends[1],
        properties=edge.properties,
        evidence=[people.id, capital.id],
    )
