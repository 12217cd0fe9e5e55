"""A graph is exported and imported into a new agent unchanged, or refused without leaving any data."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import ValidationError
from sqlalchemy import func, select, text, update

from shared.database import ids
from shared.database.tables import (
    Agent,
    Base,
    Evidence,
    GraphEdge,
    GraphEdgeType,
    GraphNode,
    GraphNodeType,
    Iteration,
    Retraction,
    Source,
)
from shared.enums import ADVICE_TYPE
from shared.graph import elements
from shared.graph.conclusions import citation_index, conclusions
from shared.graph.entity_resolution import aliases
from shared.graph.scope import IS_DOUBTED_SQL, GraphScope
from shared.graph.transfer import exporter, graphml, prov
from shared.graph.transfer.exporter import KINDS, EdgeLine, GraphContent, Head, NodeLine, SourceLine
from shared.graph.transfer.exporter import format_line as line_of
from shared.graph.transfer.file_reader import BadFileError, ExportedGraph
from shared.graph.transfer.importer import import_graph
from shared.graph.types import RESERVED_TYPES
from shared.graph.validity import apply_boundaries
from shared.graph.verification.report import verify_conclusion
from tests.support.attack_mode import in_full
from tests.support.canonical_graph import canonical, graph_fingerprint
from tests.support.case_files import read_cases
from tests.support.factories import MISSION
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.graph.agent_graph import EVIDENCE_INPUTS, AgentGraph
from tests.support.graph.duplicates import Duplicates, merge_nodes
from tests.support.graph.graph_with_evidence import FETCHED, EvidenceGraph
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.graph.transfer import exported, imported, reseal
from tests.support.graph.verification import breaks, grow
from tests.support.hostile import JSON, STRINGS
from tests.support.second_analysis import add_second_analysis
from tests.support.seeds import repeatable
from tests.support.table_rows import change

CASES = read_cases(__file__)


async def count_rows(evidence_graph: EvidenceGraph) -> dict[str, int]:
    async with evidence_graph.agent_graph.database.transaction() as session:
        counts = {
            name: await session.scalar(select(func.count()).select_from(table))
            for name, table in Base.metadata.tables.items()
        }
    return {name: count or 0 for name, count in counts.items()}


async def test_an_imported_graph_equals_the_original_with_its_evidence(
    evidence_graph: EvidenceGraph, seed: int
) -> None:
    with repeatable(seed):
        await grow(evidence_graph, Random(seed))
        await evidence_graph.retract("https://b.example/census")
        scope = await imported(evidence_graph, await exported(evidence_graph))
        async with evidence_graph.agent_graph.database.snapshot() as session:
            assert await canonical(session, scope) == await canonical(session, evidence_graph.scope)
            old = await graph_fingerprint(session, evidence_graph.scope)
            assert await graph_fingerprint(session, scope) == old
            assert await breaks(session, scope) == []
            advice = ids.node_id(scope.agent_id, ADVICE_TYPE, "Wait")
            report = await verify_conclusion(session, scope.owner_id, advice)
            original_report = await verify_conclusion(
                session, scope.owner_id, evidence_graph.nodes["Wait"]
            )
            agent = await session.get_one(Agent, scope.agent_id)
        assert report is not None
        assert original_report is not None
        assert report.holds
        assert {evidence.quote for evidence in report.evidence} == {
            evidence.quote for evidence in original_report.evidence
        }
        assert (agent.active, agent.status, agent.name) == (False, "ready", "watcher 2")
        assert agent.observer_system_prompt == "You plan for the agent."


async def test_an_import_takes_over_the_domains_the_corpus_and_the_archive_date(
    evidence_graph: EvidenceGraph,
) -> None:
    """What rests on a page that is barred by now is imported too."""
    async with evidence_graph.agent_graph.database.transaction() as session:
        agent = await session.get_one(Agent, evidence_graph.scope.agent_id)
        agent = await change(
            session, agent, preferred_domains=["reuters.com"], barred_domains=["b.example"]
        )
        agent = await change(
            session, agent, corpus="reports-1234abcd", archive_date=date(2024, 3, 1)
        )
    file = await exported(evidence_graph)
    # The export has the values of the new date already.
    await apply_boundaries(evidence_graph.agent_graph.database)
    scope = await imported(evidence_graph, file)
    async with evidence_graph.agent_graph.database.transaction() as session:
        agent = await session.get_one(Agent, scope.agent_id)
        assert (agent.preferred_domains, agent.barred_domains) == (["reuters.com"], ["b.example"])
        assert (agent.corpus, agent.archive_date) == ("reports-1234abcd", date(2024, 3, 1))
        assert await canonical(session, scope) == await canonical(session, evidence_graph.scope)
    without = (
        b',"preferred_domains":["reuters.com"],"barred_domains":["b.example"]'
        b',"corpus":"reports-1234abcd","archive_date":"2024-03-01"'
    )
    assert file.count(without) == 1
    scope = await imported(evidence_graph, reseal(file.replace(without, b"").splitlines(True)))
    async with evidence_graph.agent_graph.database.transaction() as session:
        agent = await session.get_one(Agent, scope.agent_id)
        assert (agent.preferred_domains, agent.barred_domains) == ([], [])
        assert (agent.corpus, agent.archive_date) == (None, None)


async def test_an_imported_graph_can_be_exported_again(evidence_graph: EvidenceGraph) -> None:
    first = await exported(evidence_graph)
    scope = await imported(evidence_graph, first, "Second")
    copy = EvidenceGraph(
        AgentGraph(
            evidence_graph.agent_graph.database, scope, evidence_graph.agent_graph.validators
        )
    )
    second = await exported(copy)
    assert rows_without_ids(first) == rows_without_ids(second)
    with pytest.raises(BadFileError, match="'second' already exists"):
        await imported(evidence_graph, first, "second")


def rows_without_ids(file: bytes) -> list[Any]:
    """The rows of the file without their derived values."""
    lines = [json.loads(line) for line in file.splitlines()[1:-1]]
    return sorted(json.dumps(_plain(line), sort_keys=True) for line in lines)


def _plain(value: Any) -> Any:
    derived = {"id", "seal", "source_id", "target_id", "element_id", "subject", "replaced_by"}
    derived |= {"content", "summary"}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key not in derived}
    if isinstance(value, list):
        return sorted((_plain(inner) for inner in value), key=str)
    return value


CORRUPTIONS: Sequence[tuple[Callable[[list[bytes]], bytes], str]] = (
    (lambda lines: b"".join(lines[:-1]), "lacks its last line: export it again"),
    (lambda lines: b"".join(lines)[:-40], "and is incomplete: export it again"),
    (lambda lines: b"", "lacks its last line: export it again"),
    (lambda lines: b"{}\n", "was not written by"),
    (lambda lines: b"".join(lines).replace(b"Accra", b"Accrb"), "changed outside Vigil"),
    (lambda lines: b"".join(lines).replace(b"A Country of", b"A country of"), "SHA-256"),
    (
        lambda lines: b"".join(line for line in lines if b"/unused" not in line),
        "counts in the last line do not match",
    ),
    (lambda lines: b"".join([*lines, b"{}\n"]), "more data after line"),
    (lambda lines: b"".join([lines[0], b"[]\n", *lines[1:]]), "has an unknown kind"),
    (lambda lines: b"".join([lines[0], *lines[5:7], *lines[1:]]), "must come before"),
)


async def test_a_corrupt_file_is_refused_and_leaves_no_data(
    evidence_graph: EvidenceGraph, subtests: pytest.Subtests
) -> None:
    lines = (await exported(evidence_graph)).splitlines(keepends=True)
    before = await count_rows(evidence_graph)
    for corrupt, message in CORRUPTIONS:
        with subtests.test(message):
            with pytest.raises(BadFileError, match=message):
                await imported(evidence_graph, corrupt(lines))
            assert await count_rows(evidence_graph) == before


async def test_a_changed_row_is_refused_even_with_a_valid_file_hash(
    evidence_graph: EvidenceGraph, subtests: pytest.Subtests
) -> None:
    lines = (await exported(evidence_graph)).splitlines(keepends=True)
    before = await count_rows(evidence_graph)
    for original, replacement in (
        (b'"title":"About', b'"title":"about'),
        (b'"name":"Ghana', b'"name":"ghana'),
        (b'"lengths":[', b'"lengths":[7,'),
    ):
        with subtests.test(str(original)):
            index = next(number for number, line in enumerate(lines) if original in line)
            changed = lines[index].replace(original, replacement)
            with pytest.raises(BadFileError, match=f"line {index + 1}: "):
                await imported(
                    evidence_graph, reseal([*lines[:index], changed, *lines[index + 1 :]])
                )
            assert await count_rows(evidence_graph) == before


async def test_references_to_missing_rows_are_refused(evidence_graph: EvidenceGraph) -> None:
    lines = (await exported(evidence_graph)).splitlines(keepends=True)
    for prefix in (b'{"source":', b'{"node":'):
        remaining = [line for line in lines if not line.startswith(prefix)]
        with pytest.raises(BadFileError, match="does not exist"):
            await imported(evidence_graph, reseal(remaining))
    duplicate = next(line for line in lines if line.startswith(b'{"source":'))
    index = lines.index(duplicate)
    with pytest.raises(BadFileError, match="its rows are inconsistent"):
        await imported(evidence_graph, reseal([*lines[:index], duplicate, *lines[index:]]))


TOO_LONG = "x" * 5_000_000


async def test_values_that_the_api_would_refuse_are_refused_with_the_line(
    evidence_graph: EvidenceGraph, subtests: pytest.Subtests
) -> None:
    file = (await exported(evidence_graph)).decode()
    before = await count_rows(evidence_graph)
    for case, corrupted, message in CASES["refused_values"]:
        original = case.replace("%s", MISSION)
        with subtests.test(corrupted):
            assert original in file
            changed = file.replace(original, corrupted.replace("TOO_LONG", TOO_LONG), 1)
            with pytest.raises(BadFileError, match=message) as error:
                await imported(evidence_graph, reseal(changed.encode().splitlines(keepends=True)))
            assert len(str(error.value)) < 1_000
            assert await count_rows(evidence_graph) == before


HOSTILE_MOMENTS = ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01T00:00:00")


async def test_hostile_values_in_a_file_are_imported_or_refused(
    evidence_graph: EvidenceGraph, seed: int
) -> None:
    """Replaces random fields of random lines, and reseals the file."""
    await evidence_graph.retract("https://b.example/census")
    lines = (await exported(evidence_graph)).splitlines(keepends=True)
    chance = Random(seed)
    before = await count_rows(evidence_graph)
    tries = 300 if in_full() else 40
    with repeatable(seed):
        for _ in range(tries):
            index = chance.randrange(len(lines) - 1)
            new_lines = [*lines]
            new_lines[index] = replace_random_value(lines[index], chance)
            try:
                async with evidence_graph.agent_graph.database.transaction() as session:
                    file = BytesIO(reseal_rows(new_lines))
                    await import_graph(
                        session, evidence_graph.scope.owner_id, ExportedGraph(file), None
                    )
                    await session.rollback()
            except BadFileError as error:
                message = str(error)
            else:
                message = ""
            assert len(message) < 3_000, lines[index]
    assert await count_rows(evidence_graph) == before


def replace_random_value(line: bytes, chance: Random) -> bytes:
    """Replace one value of the line; works on bytes, because some values are not JSON."""
    row = json.loads(line)
    places = list(_places(row))
    parent, key = chance.choice(places)
    parent[key] = "@here@"
    values = [
        *JSON,
        *(json.dumps(text).encode() for text in (*STRINGS, *HOSTILE_MOMENTS)),
    ]
    encoded = json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()
    return encoded.replace(b'"@here@"', chance.choice(values).replace(b"\n", b" ")) + b"\n"


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def reseal_rows(lines: list[bytes]) -> bytes:
    """Like `reseal`, and also recompute the seal of every readable row."""
    agent_id = UUID(json.loads(first)["agent"]["id"]) if (first := _valid_head(lines)) else uuid4()
    rows = [_reseal_row(line, agent_id) for line in lines[1:-1]]
    try:
        return reseal([lines[0], *rows, lines[-1]])
    except (ValueError, TypeError, RecursionError, AttributeError):
        return b"".join([lines[0], *rows, lines[-1]])


def _valid_head(lines: list[bytes]) -> bytes | None:
    try:
        Head.model_validate_json(lines[0])
    except ValidationError:
        return None
    return lines[0]


def _reseal_row(line: bytes, agent_id: UUID) -> bytes:
    kind, _, body = line[2:].partition(b'":')
    try:
        row = KINDS[kind.decode()].model_validate_json(body.rstrip()[:-1])
        match row:
            case SourceLine():
                seal = row.sealed(agent_id)
            case NodeLine() | EdgeLine():
                evidence = [
                    entry.model_copy(update={"seal": entry.sealed(agent_id)})
                    for entry in row.evidence
                ]
                row = row.model_copy(update={"evidence": evidence})
                seal = row.sealed(agent_id, [entry.id for entry in evidence])
            case _:
                return line
        return line_of(kind.decode(), row.model_copy(update={"seal": seal}))
    except (ValueError, OverflowError, KeyError):
        return line


async def test_pending_retractions_are_exported_with_their_doubts(
    evidence_graph: EvidenceGraph, agent_graph: AgentGraph
) -> None:
    """The same holds for a pending restoration, which closes doubts."""
    retraction_graph = RetractionGraph(agent_graph)
    before = doubts_in(await exported(evidence_graph))
    retraction_id = await retraction_graph.ask_retract("https://a.example/ghana")
    pending = doubts_in(await exported(evidence_graph))
    await retraction_graph.work_off(at_once=1)
    assert pending == doubts_in(await exported(evidence_graph)) != before
    await retraction_graph.ask_restore(retraction_id)
    assert doubts_in(await exported(evidence_graph)) == before


def doubts_in(file: bytes) -> list[Any]:
    """Conclusion, element and source of each doubt."""
    rows = [json.loads(line).get("node", {}) for line in file.splitlines()[1:-1]]
    return sorted(
        (row["id"], doubt["element_id"], doubt["source_id"])
        for row in rows
        for doubt in row.get("doubts", ())
    )


@pytest.mark.parametrize("length", [3_000, 100_000])
async def test_a_key_that_is_too_long_for_an_index_is_refused(
    evidence_graph: EvidenceGraph, length: int
) -> None:
    chance = Random(length)
    key = "".join(chr(chance.randint(0x4E00, 0x9FFF)) for _ in range(length))
    lines = (await exported(evidence_graph)).splitlines(keepends=True)
    place = next(place for place, line in enumerate(lines) if line.startswith(b'{"node":'))
    row = json.loads(lines[place])
    row["node"]["names"] = {key: "Ghana"}
    lines[place] = json.dumps(row, separators=(",", ":")).encode() + b"\n"
    before = await count_rows(evidence_graph)
    with pytest.raises(BadFileError, match="its rows are inconsistent"):
        await imported(evidence_graph, reseal(lines))
    assert await count_rows(evidence_graph) == before


async def test_a_node_without_evidence_is_imported_without_a_seal(
    evidence_graph: EvidenceGraph,
) -> None:
    benin = await evidence_graph.agent_graph.unproven("Benin")
    scope = await imported(evidence_graph, await exported(evidence_graph))
    async with evidence_graph.agent_graph.database.snapshot() as session:
        assert {fault.broken for fault in await breaks(session, scope)} == {"unproven"}
        row = await session.get_one(GraphNode, ids.node_id(scope.agent_id, "Country", "Benin"))
        assert (row.seal, row.properties) == (None, {"summary": "A state."})
        assert row.id != benin


async def test_unsupported_elements_are_imported_with_their_flag(
    evidence_graph: EvidenceGraph,
) -> None:
    await evidence_graph.retract("https://a.example/togo")
    await evidence_graph.retract("https://a.example/ghana")
    scope = await imported(evidence_graph, await exported(evidence_graph))
    is_unsupported = GraphNode.unsupported_since.is_not(None)
    async with evidence_graph.agent_graph.database.transaction() as session:
        names = select(GraphNode.name).where(is_unsupported, GraphNode.agent_id == scope.agent_id)
        assert list(await session.scalars(names)) == ["Togo"]
        edges = select(GraphEdge.type, GraphEdge.unsupported_since.is_not(None))
        rows = await session.execute(edges.where(GraphEdge.agent_id == scope.agent_id))
        assert sorted(map(tuple, rows)) == [("about", False), ("borders", True)]


async def test_an_export_during_a_retraction_contains_the_final_state(
    evidence_graph: EvidenceGraph,
) -> None:
    retraction_graph = RetractionGraph(evidence_graph.agent_graph)
    retraction_id = await retraction_graph.ask_retract("https://b.example/census")
    halfway = await imported(evidence_graph, await exported(evidence_graph))
    await retraction_graph.work_off()
    await retraction_graph.ask_restore(retraction_id)
    restored = await imported(evidence_graph, await exported(evidence_graph))
    async with evidence_graph.agent_graph.database.snapshot() as session:
        for scope, people in ((halfway, 33_000_000), (restored, 35_000_000)):
            assert await breaks(session, scope) == []
            ghana = ids.node_id(scope.agent_id, "Country", "Ghana")
            node = await session.get_one(GraphNode, ghana)
            assert node.properties["population"] == people


async def test_a_renamed_node_keeps_its_evidence(evidence_graph: EvidenceGraph) -> None:
    """Its id derives from the earlier spelling, and differs from the id of its present name."""
    from shared.graph.projection import NODES, reproject

    async with evidence_graph.agent_graph.database.transaction() as session:
        togo = evidence_graph.nodes["Togo"]
        await session.execute(update(GraphNode).where(GraphNode.id == togo).values(name="TOGO"))
        await reproject(session, evidence_graph.scope, NODES, togo)
    scope = await imported(evidence_graph, await exported(evidence_graph))
    async with evidence_graph.agent_graph.database.snapshot() as session:
        assert await breaks(session, scope) == []
        assert await canonical(session, scope) == await canonical(session, evidence_graph.scope)
        node = await session.get(GraphNode, ids.node_id(scope.agent_id, "Country", "TOGO"))
        assert node is None


async def test_an_imported_retraction_keeps_its_doubts_and_can_be_restored(
    evidence_graph: EvidenceGraph,
) -> None:
    before = await doubted_names(evidence_graph.agent_graph, evidence_graph.scope)
    await RetractionGraph(evidence_graph.agent_graph).retract("https://b.example/census")
    expected = await doubted_names(evidence_graph.agent_graph, evidence_graph.scope)
    assert expected > before
    scope = await imported(evidence_graph, await exported(evidence_graph))
    imported_library = RetractionGraph(
        AgentGraph(
            evidence_graph.agent_graph.database, scope, evidence_graph.agent_graph.validators
        )
    )
    assert await doubted_names(imported_library.agent_graph, scope) == expected
    async with imported_library.agent_graph.database.transaction() as session:
        ghana = ids.node_id(scope.agent_id, "Country", "Ghana")
        assert [
            conclusion.name
            for conclusion in await citation_index.list_citing_conclusions(session, scope, ghana)
        ] == ["Growth"]
        is_own = Retraction.agent_id == scope.agent_id
        retraction = (await session.scalars(select(Retraction).where(is_own))).one()
        assert (retraction.url, retraction.reason) == ("https://b.example/census", "made up")
    await imported_library.restore(retraction.id)
    assert await doubted_names(imported_library.agent_graph, scope) == before
    node = await imported_library.get_node(ghana)
    assert node.properties["population"] == 35_000_000


async def doubted_names(agent_graph: AgentGraph, scope: GraphScope) -> set[str]:
    """The names of the conclusions in doubt."""
    async with agent_graph.database.transaction() as session:
        is_own = GraphNode.agent_id == scope.agent_id
        return set(
            await session.scalars(select(GraphNode.name).where(is_own, text(IS_DOUBTED_SQL)))
        )


async def test_the_names_of_a_node_are_imported(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    """Otherwise the first page about the merged node would create a duplicate."""
    await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    scope = await imported(EvidenceGraph(agent_graph), await exported(EvidenceGraph(agent_graph)))
    copy = AgentGraph(agent_graph.database, scope, agent_graph.validators)
    kept_id = ids.node_id(scope.agent_id, "Country", "Ivory Coast")
    async with agent_graph.database.transaction() as session:
        names = await aliases.list_names(session, scope, kept_id)
    assert names == ["Ivory Coast", "Côte d’Ivoire"]
    assert await copy.node("Côte d'Ivoire") == await copy.node("IVORY COAST") == kept_id


def with_nodes(file: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Apply `change` to each node, and reseal the file."""
    rows = [json.loads(line) for line in file.splitlines()]
    for row in rows:
        if "node" in row:
            change(row["node"])
    lines = [json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows]
    return reseal([f"{line}\n".encode() for line in lines])


async def test_an_older_export_is_imported_without_names_and_doubts(
    evidence_graph: EvidenceGraph,
) -> None:
    def remove_names_and_doubts(node: dict[str, Any]) -> None:
        del node["names"], node["doubts"]

    scope = await imported(
        evidence_graph, with_nodes(await exported(evidence_graph), remove_names_and_doubts)
    )
    async with evidence_graph.agent_graph.database.snapshot() as session:
        assert await breaks(session, scope) == []
        assert await canonical(session, scope) == await canonical(session, evidence_graph.scope)


async def test_a_name_shared_by_two_nodes_is_refused(evidence_graph: EvidenceGraph) -> None:
    file = with_nodes(
        await exported(evidence_graph), lambda node: node["names"].update(same="Same")
    )
    with pytest.raises(BadFileError, match="its rows are inconsistent"):
        await imported(evidence_graph, file)


GRAPHML = f"{{{graphml.NAMESPACE}}}"


async def test_graphml_has_the_property_types_of_the_schemas(evidence_graph: EvidenceGraph) -> None:
    await evidence_graph.says(
        "https://a.example/ghana", "Ghana", "Ghana", {"summary": "Gold & <other> \x0b things"}
    )
    graph = ET.fromstring(await exported(evidence_graph, graphml.export_graphml))
    kinds = {key.get("id"): key.get("attr.type") for key in graph.iter(f"{GRAPHML}key")}
    assert (kinds["node.population"], kinds["node.capital"]) == ("long", "string")
    nodes = {
        node.get("id"): {field.get("key"): field.text for field in node}
        for node in graph.iter(f"{GRAPHML}node")
    }
    ghana = nodes[str(evidence_graph.nodes["Ghana"])]
    assert (ghana["node.name"], ghana["node.population"]) == ("Ghana", "35000000")
    assert (ghana["node.evidence"], ghana["node.properties"]) == ("4", "{}")
    (border,) = [
        edge
        for edge in graph.iter(f"{GRAPHML}edge")
        if edge.get("id") == str(evidence_graph.edges["border"])
    ]
    ends = {
        "source": str(evidence_graph.nodes["Ghana"]),
        "target": str(evidence_graph.nodes["Togo"]),
    }
    assert {"source": border.get("source"), "target": border.get("target")} == ends
    assert set(kinds) >= {field.get("key") for field in border}


async def test_prov_leads_from_advice_to_the_page(evidence_graph: EvidenceGraph) -> None:
    document = json.loads(await exported(evidence_graph, prov.export_prov))
    assert document["@context"]["wasQuotedFrom"] == {"@id": "prov:wasQuotedFrom", "@type": "@id"}
    by_id = {entity["@id"]: entity for entity in document["@graph"]}
    assert len(by_id) == len(document["@graph"]) == 1 + 5 + 7 + 5 + 2

    def derived(entity_id: str) -> list[str]:
        return [
            *by_id[entity_id].get("wasDerivedFrom", []),
            *_listed(by_id[entity_id].get("wasQuotedFrom")),
        ]

    visited, pending = set[str](), [f"urn:uuid:{evidence_graph.nodes['Wait']}"]
    while pending:
        entity_id = pending.pop()
        if entity_id not in visited:
            visited.add(entity_id)
            pending += derived(entity_id)
    pages = {
        by_id[entity_id]["atLocation"] for entity_id in visited if "atLocation" in by_id[entity_id]
    }
    assert pages == {"https://a.example/ghana", "https://b.example/census"}
    assert "vigil:advice" in by_id[f"urn:uuid:{evidence_graph.nodes['Wait']}"]["@type"]
    quotes = {by_id[entity_id].get("value") for entity_id in visited}
    assert "Its capital is Accra." in quotes


def _listed(value: str | None) -> list[str]:
    return [] if value is None else [value]


async def test_an_export_is_consistent_despite_concurrent_writes(
    evidence_graph: EvidenceGraph,
) -> None:
    pieces: list[bytes] = []
    async with evidence_graph.agent_graph.database.snapshot() as session:
        async for piece in exporter.export_json_lines(GraphContent(session, evidence_graph.scope)):
            if len(pieces) == 1:
                later = FETCHED + timedelta(days=900)
                claims = {"population": 1}
                await evidence_graph.says(
                    "https://a.example/togo", "Togo has 9", "Togo", claims, valid_from=later
                )
            pieces.append(piece)
    scope = await imported(evidence_graph, b"".join(pieces))
    async with evidence_graph.agent_graph.database.snapshot() as session:
        togo = await session.get_one(GraphNode, ids.node_id(scope.agent_id, "Country", "Togo"))
        assert togo.properties["population"] == 9_000_000
        counts = [
            await session.scalar(
                select(func.count()).select_from(table).where(table.agent_id == scope.agent_id)
            )
            for table in (Source, GraphNode, GraphEdge, Evidence)
        ]
    assert counts == [5, 5, 2, 7]


LATER = datetime(2031, 1, 31, tzinfo=UTC)

Row = GraphNode | GraphEdge | GraphNodeType | GraphEdgeType | Evidence | Source


async def hash_of(agent_graph: AgentGraph, scope: GraphScope | None = None) -> str:
    async with agent_graph.database.transaction() as session:
        return await graph_fingerprint(session, scope or agent_graph.scope)


async def learn(agent_graph: AgentGraph, *, backwards: bool = False) -> None:
    """Two states, a border with a length, an analysis that cites all three, and advice that cites it."""
    names = ["Ghana", "Togo"]
    ids = {name: await agent_graph.node(name) for name in (reversed(names) if backwards else names)}
    for facts in ({"capital": "Accra"}, {"population": 33})[:: -1 if backwards else 1]:
        await agent_graph.node("Ghana", **facts)
    async with agent_graph.database.transaction() as session:
        result = await elements.add_edge(
            session,
            agent_graph.scope,
            agent_graph.validators,
            type_name="borders",
            source_id=ids["Ghana"],
            target_id=ids["Togo"],
            properties={"lengths_km": [1098, {"since": "1914"}], "open": True},
            evidence=EVIDENCE_INPUTS,
        )
        border = result.id
        analysis = await conclusions.add_analysis(
            session,
            agent_graph.scope,
            name="Neighbours",
            kind="observation",
            summary=f"They touch [edge:{border}].",
            content=f"Ghana [node:{ids['Ghana']}] touches Togo [node:{ids['Togo']}] [edge:{border}].",
            confidence=0.5,
        )
        second = await add_second_analysis(session, agent_graph.scope, ids["Ghana"])
        await conclusions.add_advice(
            session,
            agent_graph.scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=f"Nothing moves [node:{analysis}] [node:{second}].",
            **ADVICE_TERMS,
        )


async def test_agents_with_the_same_knowledge_have_the_same_hash(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    assert await hash_of(agent_graph) == await hash_of(stranger)
    await learn(agent_graph)
    assert await hash_of(agent_graph) != await hash_of(stranger)
    await learn(stranger, backwards=True)
    assert await hash_of(agent_graph) == await hash_of(stranger)


KNOWLEDGE: dict[type[Row], tuple[str, ...]] = {
    GraphNode: ("name", "properties"),
    GraphEdge: ("properties",),
    GraphNodeType: ("description", "properties_schema", "example_properties"),
    GraphEdgeType: ("description", "properties_schema", "source_types", "target_types"),
    Evidence: ("first_byte", "end_byte", "claims", "valid_from", "valid_to"),
    Source: ("url", "sha256", "retracted_at"),
}


def variants(value: Any) -> Iterator[Any]:
    """Yield every variant of `value` with one change in one place."""
    if isinstance(value, dict):
        yield {**value, "another": 1}
        for key in value.keys() - {"generated_at"}:
            yield {name: inner for name, inner in value.items() if name != key}
            yield from ({**value, key: other} for other in variants(value[key]))
    elif isinstance(value, list):
        yield [*value, "another"]
        for index, inner in enumerate(value):
            for other in variants(inner):
                yield [*value[:index], other, *value[index + 1 :]]
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield f"{value}!"
    elif isinstance(value, bytes):
        yield value + b"!"
    elif value is None:
        yield LATER
    else:
        yield value + 1


@pytest.mark.slow
async def test_any_change_changes_the_hash(agent_graph: AgentGraph) -> None:
    await learn(agent_graph)
    hashes = {await hash_of(agent_graph)}
    async with agent_graph.database.transaction() as session:
        for table, columns in KNOWLEDGE.items():
            for row in await session.scalars(select(table)):
                for column in columns:
                    original = getattr(row, column)
                    for other in variants(original):
                        await change(session, row, **{column: other})
                        changed_hash = await graph_fingerprint(session, agent_graph.scope)
                        assert changed_hash not in hashes, (table, column, other)
                        hashes.add(changed_hash)
                    await change(session, row, **{column: original})
    assert len(hashes) > 150


async def test_edge_direction_and_element_types_change_the_hash(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    for agent in (agent_graph, stranger):
        await agent.edge_type("near")
        await agent.node_type("River")
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    await agent_graph.edge(ghana, togo)
    other_ghana, other_togo = await stranger.node("Ghana"), await stranger.node("Togo")
    await stranger.edge(other_togo, other_ghana)
    assert await hash_of(agent_graph) != await hash_of(stranger)
    await agent_graph.edge(togo, ghana)
    await stranger.edge(other_ghana, other_togo)
    assert await hash_of(agent_graph) == await hash_of(stranger)
    await agent_graph.edge(ghana, togo, "near")
    assert await hash_of(agent_graph) != await hash_of(stranger)
    await stranger.edge(other_ghana, other_togo, "near")
    await agent_graph.node("Volta", "River")
    await stranger.node("Volta")
    assert await hash_of(agent_graph) != await hash_of(stranger)


async def test_author_times_and_number_format_do_not_change_the_hash(
    agent_graph: AgentGraph,
) -> None:
    await learn(agent_graph)
    before = await hash_of(agent_graph)
    await agent_graph.iteration(1, queries=["What grows?"])
    async with agent_graph.database.transaction() as session:
        iteration = (await session.scalars(select(Iteration))).one()
        for node in await session.scalars(select(GraphNode)):
            node = await change(
                session, node, iteration_id=iteration.id, created_at=LATER, updated_at=LATER
            )
            if node.type in RESERVED_TYPES:
                node = await change(
                    session,
                    node,
                    properties={**node.properties, "generated_at": "2031-01-31T12:00:00Z"},
                )
            elif node.name == "Ghana":
                node = await change(
                    session, node, properties={**node.properties, "population": 33.0}
                )
        await session.execute(update(GraphNodeType).values(created_by="somebody", created_at=LATER))
    assert await hash_of(agent_graph) == before


async def test_the_cited_element_changes_the_hash(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    for agent, cited_name in ((agent_graph, "Ghana"), (stranger, "Togo")):
        ids = {name: await agent.node(name) for name in ("Ghana", "Togo")}
        await agent.analysis(f"It grows [node:{ids[cited_name]}].", "It grows")
    assert await hash_of(agent_graph) != await hash_of(stranger)
