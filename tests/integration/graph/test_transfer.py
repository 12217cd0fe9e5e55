"""A graph exported, and read back into a new agent: the same, and proved as it was; or refused, and nothing left."""

import json
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from random import Random
from typing import Any

import pytest
from sqlalchemy import func, select, update

from shared.graph import citing, doubts, names
from shared.graph.canonical import canonical, canonical_hash
from shared.graph.proof.seals import sha256
from shared.graph.scope import Scope
from shared.graph.transfer import graphml, json_lines, prov
from shared.graph.transfer.content import Content
from shared.graph.transfer.importing import import_graph
from shared.graph.transfer.reading import BadFileError, ExportedGraph
from shared.graph.verify.told import verification
from shared.store import ids
from shared.store.tables import Agent, Base, Evidence, GraphEdge, GraphNode, Retraction, Source
from shared.store.words import ADVICE_TYPE
from tests.integration.graph.doubled import Doubled, merge_nodes
from tests.integration.graph.library import Library
from tests.integration.graph.proven import FETCHED, Proven, prove
from tests.integration.graph.test_mutations import breaks, grow
from tests.integration.graph.world import World
from tests.seeds import repeatable

GRAPHML = f"{{{graphml.NAMESPACE}}}"


@pytest.fixture
async def proven(world: World) -> Proven:
    return await prove(world)


async def exported(proven: Proven, written: Callable[[Content], Any] = json_lines.written) -> bytes:
    async with proven.world.database.snapshot() as session:
        return b"".join([piece async for piece in written(Content(session, proven.scope))])


async def imported(proven: Proven, file: bytes, name: str | None = None) -> Scope:
    owner_id = proven.scope.owner_id
    async with proven.world.database.transaction() as session:
        agent = await import_graph(session, owner_id, ExportedGraph(BytesIO(file)), name)
        return Scope(owner_id, agent.id)


async def state(proven: Proven) -> dict[str, int]:
    async with proven.world.database.transaction() as session:
        counts = {
            name: await session.scalar(select(func.count()).select_from(table))
            for name, table in Base.metadata.tables.items()
        }
    return {name: count or 0 for name, count in counts.items()}


def resealed(lines: list[bytes]) -> bytes:
    """With a last line as if it had been written so."""
    end = json.loads(lines[-1])
    told = [json.loads(line) for line in lines[1:-1]]
    kinds = Counter(f"{kind}s" for each in told for kind in each)
    found = [value.get("evidence", []) for each in told for value in each.values()]
    counts = {name: kinds[name] for name in end["end"]["counts"]}
    end["end"]["counts"] = counts | {"evidence": sum(map(len, found))}
    end["end"]["sha256"] = sha256(b"".join(lines[:-1])).hex()
    return b"".join([*lines[:-1], json.dumps(end, separators=(",", ":")).encode() + b"\n"])


async def test_what_comes_back_is_the_same_and_is_proved_as_it_was(
    proven: Proven, seed: int
) -> None:
    with repeatable(seed):
        await grow(proven, Random(seed))
        await proven.retract("https://b.example/census")
        scope = await imported(proven, await exported(proven))
        async with proven.world.database.snapshot() as session:
            assert await canonical(session, scope) == await canonical(session, proven.scope)
            old = await canonical_hash(session, proven.scope)
            assert await canonical_hash(session, scope) == old
            assert await breaks(session, scope) == []
            advice = ids.node_id(scope.agent_id, ADVICE_TYPE, "Wait")
            told = await verification(session, scope.owner_id, advice)
            before = await verification(session, scope.owner_id, proven.nodes["Wait"])
            agent = await session.get_one(Agent, scope.agent_id)
        assert told is not None
        assert before is not None
        assert told.holds
        assert {each.quote for each in told.evidence} == {each.quote for each in before.evidence}
        assert (agent.active, agent.status, agent.name) == (False, "ready", "watcher 2")
        assert agent.observer_system_prompt == "You plan for the agent."


async def test_it_can_be_exported_again_as_it_was(proven: Proven) -> None:
    first = await exported(proven)
    scope = await imported(proven, first, "Second")
    again = Proven(World(proven.world.database, scope, proven.world.validators))
    second = await exported(again)
    assert told_without_ids(first) == told_without_ids(second)
    with pytest.raises(BadFileError, match="'second' already"):
        await imported(proven, first, "second")


def told_without_ids(file: bytes) -> list[Any]:
    """Of sources, nodes and edges, what is not derived."""
    lines = [json.loads(line) for line in file.splitlines()[1:-1]]
    return sorted(json.dumps(_plain(line), sort_keys=True) for line in lines)


def _plain(value: Any) -> Any:
    derived = {"id", "seal", "source_id", "target_id", "thing_id", "content", "summary"}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key not in derived}
    if isinstance(value, list):
        return sorted((_plain(inner) for inner in value), key=str)
    return value


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda lines: b"".join(lines[:-1]), "cut short"),
        (lambda lines: b"".join(lines)[:-40], "cut short"),
        (lambda lines: b"", "cut short"),
        (lambda lines: b"{}\n", "no graph that"),
        (lambda lines: b"".join(lines).replace(b"Accra", b"Accrb"), "changed behind"),
        (lambda lines: b"".join(lines).replace(b"A Country of", b"A country of"), "SHA-256"),
        (lambda lines: b"".join(each for each in lines if b"/unused" not in each), "counts other"),
        (lambda lines: b"".join([*lines, b"{}\n"]), "behind the last line"),
        (lambda lines: b"".join([lines[0], b"[]\n", *lines[1:]]), "of no kind"),
        (lambda lines: b"".join([lines[0], *lines[5:7], *lines[1:]]), "should stand before"),
    ],
)
async def test_a_file_that_is_not_as_it_was_written_leaves_nothing_behind(
    proven: Proven, spoil: Callable[[list[bytes]], bytes], told: str
) -> None:
    lines = (await exported(proven)).splitlines(keepends=True)
    before = await state(proven)
    with pytest.raises(BadFileError, match=told):
        await imported(proven, spoil(lines))
    assert await state(proven) == before


@pytest.mark.parametrize("kind", ["source", "node", "edge"])
async def test_a_row_that_was_changed_before_is_refused_even_in_a_file_that_is_whole(
    proven: Proven, kind: str
) -> None:
    lines = (await exported(proven)).splitlines(keepends=True)
    before = await state(proven)
    changes = {"source": b'"title":"About', "node": b'"name":"Ghana', "edge": b'"lengths":['}
    changed = {"source": b'"title":"about', "node": b'"name":"ghana', "edge": b'"lengths":[7,'}
    at = next(number for number, line in enumerate(lines) if changes[kind] in line)
    lines[at] = lines[at].replace(changes[kind], changed[kind])
    with pytest.raises(BadFileError, match=f"line {at + 1}: "):
        await imported(proven, resealed(lines))
    assert await state(proven) == before


async def test_what_speaks_of_what_is_not_there_is_refused(proven: Proven) -> None:
    lines = (await exported(proven)).splitlines(keepends=True)
    for word in (b'{"source":', b'{"node":'):
        dropped = [line for line in lines if not line.startswith(word)]
        with pytest.raises(BadFileError, match="not there"):
            await imported(proven, resealed(dropped))
    twice = next(line for line in lines if line.startswith(b'{"source":'))
    at = lines.index(twice)
    with pytest.raises(BadFileError, match="do not go together"):
        await imported(proven, resealed([*lines[:at], twice, *lines[at:]]))


@pytest.mark.parametrize(
    ("whole", "spoiled"),
    [
        (b'"description":"A Country of', rb'"description":"\u0000'),
        (b'"example_properties":{', rb'"example_properties":{"\u0000":1,'),
        (b'"interval_seconds":3600', b'"interval_seconds":36000000000000'),
    ],
)
async def test_what_no_table_can_hold_is_refused(
    proven: Proven, whole: bytes, spoiled: bytes
) -> None:
    file = await exported(proven)
    assert whole in file
    before = await state(proven)
    with pytest.raises(BadFileError, match="do not go together"):
        await imported(proven, resealed(file.replace(whole, spoiled, 1).splitlines(keepends=True)))
    assert await state(proven) == before


async def test_what_has_no_proof_comes_back_without_one(proven: Proven) -> None:
    benin = await proven.world.unproven("Benin")
    scope = await imported(proven, await exported(proven))
    async with proven.world.database.snapshot() as session:
        assert {each.broken for each in await breaks(session, scope)} == {"unproven"}
        row = await session.get_one(GraphNode, ids.node_id(scope.agent_id, "Country", "Benin"))
        assert (row.seal, row.properties) == (None, {"summary": "A state."})
        assert row.id != benin


async def test_what_rests_on_retracted_pages_alone_comes_back_with_its_flag(proven: Proven) -> None:
    await proven.retract("https://a.example/togo")
    await proven.retract("https://a.example/ghana")
    scope = await imported(proven, await exported(proven))
    flagged = GraphNode.unsupported_since.is_not(None)
    async with proven.world.database.transaction() as session:
        named = select(GraphNode.name).where(flagged, GraphNode.agent_id == scope.agent_id)
        assert list(await session.scalars(named)) == ["Togo"]
        edges = select(GraphEdge.type, GraphEdge.unsupported_since.is_not(None))
        found = await session.execute(edges.where(GraphEdge.agent_id == scope.agent_id))
        assert sorted(map(tuple, found)) == [("about", False), ("borders", True)]


async def test_a_graph_goes_out_as_it_will_be_while_a_retraction_is_gone_through(
    proven: Proven,
) -> None:
    library = Library(proven.world)
    made = await library.ask_retract("https://b.example/census")
    halfway = await imported(proven, await exported(proven))
    await library.work_off()
    await library.ask_restore(made)
    restored = await imported(proven, await exported(proven))
    async with proven.world.database.snapshot() as session:
        for scope, people in ((halfway, 33_000_000), (restored, 35_000_000)):
            assert await breaks(session, scope) == []
            ghana = ids.node_id(scope.agent_id, "Country", "Ghana")
            node = await session.get_one(GraphNode, ghana)
            assert node.properties["population"] == people


async def test_a_node_that_was_renamed_keeps_its_proof(proven: Proven) -> None:
    """Its id was made of the earlier spelling, and stays another than that of its name."""
    from shared.graph.refold import refold_node

    async with proven.world.database.transaction() as session:
        togo = proven.nodes["Togo"]
        await session.execute(update(GraphNode).where(GraphNode.id == togo).values(name="TOGO"))
        await refold_node(session, proven.scope, togo)
    scope = await imported(proven, await exported(proven))
    async with proven.world.database.snapshot() as session:
        assert await breaks(session, scope) == []
        assert await canonical(session, scope) == await canonical(session, proven.scope)
        found = await session.get(GraphNode, ids.node_id(scope.agent_id, "Country", "TOGO"))
        assert found is None


async def test_what_was_retracted_is_in_doubt_there_too_and_can_be_restored(
    proven: Proven,
) -> None:
    before = await in_doubt(proven.world, proven.scope)
    await Library(proven.world).retract("https://b.example/census")
    doubted = await in_doubt(proven.world, proven.scope)
    assert doubted > before
    scope = await imported(proven, await exported(proven))
    again = Library(World(proven.world.database, scope, proven.world.validators))
    assert await in_doubt(again.world, scope) == doubted
    async with again.world.database.transaction() as session:
        ghana = ids.node_id(scope.agent_id, "Country", "Ghana")
        assert [each.name for each in await citing.citing(session, scope, ghana)] == ["Growth"]
        of_it = Retraction.agent_id == scope.agent_id
        made = (await session.scalars(select(Retraction).where(of_it))).one()
        assert (made.url, made.because) == ("https://b.example/census", "made up")
    await again.restore(made.id)
    assert await in_doubt(again.world, scope) == before
    restored = await again.found(ghana)
    assert restored.properties["population"] == 35_000_000


async def in_doubt(world: World, scope: Scope) -> set[str]:
    """By name."""
    async with world.database.transaction() as session:
        mine = GraphNode.agent_id == scope.agent_id
        return set(await session.scalars(select(GraphNode.name).where(mine, doubts.is_doubted())))


async def test_what_a_node_is_called_comes_along(world: World, doubled: Doubled) -> None:
    """Or what was merged into it would be written anew, as a double, by the first page that speaks of it."""
    await merge_nodes(world, doubled.kept, doubled.gone)
    scope = await imported(Proven(world), await exported(Proven(world)))
    again = World(world.database, scope, world.validators)
    kept = ids.node_id(scope.agent_id, "Country", "Ivory Coast")
    async with world.database.transaction() as session:
        told = await names.of_node(session, scope, kept)
    assert told == ["Ivory Coast", "Côte d’Ivoire"]
    assert await again.node("Côte d'Ivoire") == await again.node("IVORY COAST") == kept


async def test_graphml_has_types_for_what_the_types_declare(proven: Proven) -> None:
    await proven.says(
        "https://a.example/ghana", "Ghana", "Ghana", {"summary": "Gold & <other> \x0b things"}
    )
    graph = ET.fromstring(await exported(proven, graphml.written))
    kinds = {key.get("id"): key.get("attr.type") for key in graph.iter(f"{GRAPHML}key")}
    assert (kinds["node.population"], kinds["node.capital"]) == ("long", "string")
    told = {
        node.get("id"): {each.get("key"): each.text for each in node}
        for node in graph.iter(f"{GRAPHML}node")
    }
    ghana = told[str(proven.nodes["Ghana"])]
    assert (ghana["node.name"], ghana["node.population"]) == ("Ghana", "35000000")
    assert (ghana["node.evidence"], ghana["node.properties"]) == ("4", "{}")
    (border,) = [
        edge
        for edge in graph.iter(f"{GRAPHML}edge")
        if edge.get("id") == str(proven.edges["border"])
    ]
    ends = {"source": str(proven.nodes["Ghana"]), "target": str(proven.nodes["Togo"])}
    assert {"source": border.get("source"), "target": border.get("target")} == ends
    assert set(kinds) >= {each.get("key") for each in border}


async def test_prov_leads_from_advice_to_the_page(proven: Proven) -> None:
    document = json.loads(await exported(proven, prov.written))
    assert document["@context"]["wasQuotedFrom"] == {"@id": "prov:wasQuotedFrom", "@type": "@id"}
    by_id = {each["@id"]: each for each in document["@graph"]}
    assert len(by_id) == len(document["@graph"]) == 1 + 5 + 7 + 5 + 2

    def derived(each: str) -> list[str]:
        return [*by_id[each].get("wasDerivedFrom", []), *_listed(by_id[each].get("wasQuotedFrom"))]

    met, waiting = set[str](), [f"urn:uuid:{proven.nodes['Wait']}"]
    while waiting:
        each = waiting.pop()
        if each not in met:
            met.add(each)
            waiting += derived(each)
    pages = {by_id[each]["atLocation"] for each in met if "atLocation" in by_id[each]}
    assert pages == {"https://a.example/ghana", "https://b.example/census"}
    assert "vigil:advice" in by_id[f"urn:uuid:{proven.nodes['Wait']}"]["@type"]
    quotes = {by_id[each].get("value") for each in met}
    assert "Its capital is Accra." in quotes


def _listed(value: str | None) -> list[str]:
    return [] if value is None else [value]


async def test_an_export_is_of_one_moment_whoever_writes_meanwhile(proven: Proven) -> None:
    pieces: list[bytes] = []
    async with proven.world.database.snapshot() as session:
        async for piece in json_lines.written(Content(session, proven.scope)):
            if len(pieces) == 1:
                later = FETCHED + timedelta(days=900)
                claims = {"population": 1}
                await proven.says(
                    "https://a.example/togo", "Togo has 9", "Togo", claims, valid_from=later
                )
            pieces.append(piece)
    scope = await imported(proven, b"".join(pieces))
    async with proven.world.database.snapshot() as session:
        togo = await session.get_one(GraphNode, ids.node_id(scope.agent_id, "Country", "Togo"))
        assert togo.properties["population"] == 9_000_000
        counts = [
            await session.scalar(
                select(func.count()).select_from(table).where(table.agent_id == scope.agent_id)
            )
            for table in (Source, GraphNode, GraphEdge, Evidence)
        ]
    assert counts == [5, 5, 2, 7]
