"""A graph is exported and imported into a new agent unchanged, or refused without leaving any data."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from io import BytesIO
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import ValidationError
from sqlalchemy import func, select

from shared.database import ids
from shared.database.tables import Agent, Base, GraphNode
from shared.enums import ADVICE_TYPE
from shared.graph.transfer.exporter import KINDS, EdgeLine, Head, NodeLine, SourceLine
from shared.graph.transfer.exporter import format_line as line_of
from shared.graph.transfer.file_reader import BadFileError, ExportedGraph
from shared.graph.transfer.importer import import_graph
from shared.graph.verification.verifier import verify_conclusion
from tests.support.attack_mode import in_full
from tests.support.canonical_graph import canonical, graph_fingerprint
from tests.support.case_files import read_cases
from tests.support.factories import MISSION
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.graph_with_evidence import EvidenceGraph, prove
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.graph.transfer import exported, imported, reseal
from tests.support.graph.verification import breaks, grow
from tests.support.hostile import JSON, STRINGS
from tests.support.seeds import repeatable
from tests.support.table_rows import change

CASES = read_cases(__file__)


@pytest.fixture
async def evidence_graph(agent_graph: AgentGraph) -> EvidenceGraph:
    return await prove(agent_graph)


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
    derived = {"id", "seal", "source_id", "target_id", "element_id", "content", "summary"}
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
