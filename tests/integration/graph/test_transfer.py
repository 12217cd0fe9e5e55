"""A graph exported, and read back into a new agent: the same, and proved as it was; or refused, and nothing left."""

import json
from collections.abc import Callable, Iterator
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
from tests.support.canonical_graph import canonical, canonical_hash
from tests.support.graph.proven import Proven, prove
from tests.support.graph.transferring import exported, imported, resealed
from tests.support.graph.verifying import breaks, grow
from tests.support.graph.world import World
from tests.support.hostile import JSON, STRINGS
from tests.support.making import MISSION
from tests.support.seeds import repeatable


@pytest.fixture
async def proven(world: World) -> Proven:
    return await prove(world)


async def state(proven: Proven) -> dict[str, int]:
    async with proven.world.database.transaction() as session:
        counts = {
            name: await session.scalar(select(func.count()).select_from(table))
            for name, table in Base.metadata.tables.items()
        }
    return {name: count or 0 for name, count in counts.items()}


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
            told = await verify_conclusion(session, scope.owner_id, advice)
            before = await verify_conclusion(session, scope.owner_id, proven.nodes["Wait"])
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
    with pytest.raises(BadFileError, match="'second' exists already"):
        await imported(proven, first, "second")


def told_without_ids(file: bytes) -> list[Any]:
    """Of sources, nodes and edges, what is not derived."""
    lines = [json.loads(line) for line in file.splitlines()[1:-1]]
    return sorted(json.dumps(_plain(line), sort_keys=True) for line in lines)


def _plain(value: Any) -> Any:
    derived = {"id", "seal", "source_id", "target_id", "element_id", "content", "summary"}
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
        (lambda lines: b"{}\n", "was not written by"),
        (lambda lines: b"".join(lines).replace(b"Accra", b"Accrb"), "changed outside Vigil"),
        (lambda lines: b"".join(lines).replace(b"A Country of", b"A country of"), "SHA-256"),
        (
            lambda lines: b"".join(each for each in lines if b"/unused" not in each),
            "counts in the last line do not match",
        ),
        (lambda lines: b"".join([*lines, b"{}\n"]), "more data after line"),
        (lambda lines: b"".join([lines[0], b"[]\n", *lines[1:]]), "has an unknown kind"),
        (lambda lines: b"".join([lines[0], *lines[5:7], *lines[1:]]), "must come before"),
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
        with pytest.raises(BadFileError, match="does not exist"):
            await imported(proven, resealed(dropped))
    twice = next(line for line in lines if line.startswith(b'{"source":'))
    at = lines.index(twice)
    with pytest.raises(BadFileError, match="its rows are inconsistent"):
        await imported(proven, resealed([*lines[:at], twice, *lines[at:]]))


TOO_LONG = b"x" * 5_000_000


@pytest.mark.parametrize(
    ("whole", "spoiled", "told"),
    [
        (b'"mission":"', b'"mission":"","was":"', r"line 1: |was not written by"),
        (b'"mission":"%s"', b'"mission":""', "line 1: agent.mission: a mission has 10 to 4000"),
        (
            b'"mission":"%s"',
            b'"mission":" \\n\\t          "',
            "line 1: agent.mission: .* this one 0",
        ),
        (
            b'"mission":"%s"',
            b'"mission":"%s"' % TOO_LONG,
            "line 1: agent.mission: .* this one 5000000",
        ),
        (b'"interval_seconds":3600', b'"interval_seconds":1', "line 1: agent.interval_seconds"),
        (
            b'"interval_seconds":3600',
            b'"interval_seconds":36000000000000',
            "line 1: agent.interval",
        ),
        (b'"prompts":{', b'"prompts":{"dreaming":"You dream.",', "line 1: agent.prompts.dreaming"),
        (
            b'"prompts":{',
            b'"prompts":{"configuration":"You make.",',
            "line 1: agent.prompts.config",
        ),
        (
            b'"observer":"You plan for the agent."',
            b'"observer":" "',
            "line 1: agent.prompts.observer: a system prompt",
        ),
        (b'"models":{', b'"models":{"dreaming":"a"', "line 1: agent.models.dreaming"),
        (
            b'"models":{',
            b'"models":{"observer":"%s"' % (b"m" * 201),
            "line 1: agent.models.observer",
        ),
        (
            b'"name":"watcher"',
            b'"name":"%s"' % (b"n" * 81),
            "line 1: agent.name: a name has 1 to 80",
        ),
        (b'"description":"A Country of', rb'"description":"\u0000', r"line \d+: description"),
        (b'"description":"A Country of', b'"description":"%s' % TOO_LONG, r"line \d+: description"),
        (b'"example_properties":{', rb'"example_properties":{"\u0000":1,', r"line \d+: a key of"),
        (
            b'"name":"Country"',
            b'"name":"country"',
            r"line \d+: name: 'country' is no name of a type",
        ),
        (b'"name":"Country"', b'"name":"C%s"' % (b"o" * 64), r"line \d+: name: "),
        (
            b'"summary":{"type":"string"',
            b'"summary":{"pattern":"(a+)+$","type":"string"',
            "pattern",
        ),
        (b'"summary":{"type":"string"', b'"summary":{"$ref":"#","type":"string"', r"\$ref is not"),
        (
            b'"summary":{"type":"string"',
            b'"summary":{"multipleOf":0,"type":"string"',
            "no JSON Schema",
        ),
        (b'{"node":{', b'{"node":{"age":7,', r"line \d+: age: Extra inputs"),
        (b'"type":"Country"', b'"type":"Planet"', r"line \d+: the file has no node type 'Planet'"),
        (b'"type":"borders"', b'"type":"orbits"', r"line \d+: the file has no edge type 'orbits'"),
    ],
)
async def test_what_the_api_would_refuse_is_refused_with_the_line(
    proven: Proven, whole: bytes, spoiled: bytes, told: str
) -> None:
    file = await exported(proven)
    whole = whole.replace(b"%s", MISSION.encode())
    assert whole in file
    before = await state(proven)
    with pytest.raises(BadFileError, match=told) as refused:
        await imported(proven, resealed(file.replace(whole, spoiled, 1).splitlines(keepends=True)))
    assert len(str(refused.value)) < 1_000
    assert await state(proven) == before


HOSTILE_MOMENTS = ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01T00:00:00")


async def test_hostile_values_in_a_file_are_imported_or_refused(proven: Proven, seed: int) -> None:
    """Each field of each kind of line in turn, and the file sealed as if it had been written so."""
    await proven.retract("https://b.example/census")
    lines = (await exported(proven)).splitlines(keepends=True)
    chance = Random(seed)
    before = await state(proven)
    tries = 300 if in_full() else 40
    with repeatable(seed):
        for _ in range(tries):
            at = chance.randrange(len(lines) - 1)
            changed = [*lines]
            changed[at] = disturbed(lines[at], chance)
            try:
                async with proven.world.database.transaction() as session:
                    file = BytesIO(sealed_anew(changed))
                    await import_graph(session, proven.scope.owner_id, ExportedGraph(file), None)
                    await session.rollback()
            except BadFileError as refused:
                said = str(refused)
            else:
                said = ""
            assert len(said) < 3_000, lines[at]
    assert await state(proven) == before


def disturbed(line: bytes, chance: Random) -> bytes:
    """With another value somewhere in it; as bytes, for some are no JSON."""
    whole = json.loads(line)
    places = list(_places(whole))
    parent, key = chance.choice(places)
    parent[key] = "@here@"
    values = [
        *JSON,
        *(json.dumps(each).encode() for each in (*STRINGS, *HOSTILE_MOMENTS)),
    ]
    written = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
    return written.replace(b'"@here@"', chance.choice(values).replace(b"\n", b" ")) + b"\n"


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def sealed_anew(lines: list[bytes]) -> bytes:
    """As `resealed`, with each row's own seal made good too where the row can be read."""
    agent_id = UUID(json.loads(first)["agent"]["id"]) if (first := _valid_head(lines)) else uuid4()
    rows = [_row_sealed(line, agent_id) for line in lines[1:-1]]
    try:
        return resealed([lines[0], *rows, lines[-1]])
    except (ValueError, TypeError, RecursionError, AttributeError):
        return b"".join([lines[0], *rows, lines[-1]])


def _valid_head(lines: list[bytes]) -> bytes | None:
    try:
        Head.model_validate_json(lines[0])
    except ValidationError:
        return None
    return lines[0]


def _row_sealed(line: bytes, agent_id: UUID) -> bytes:
    kind, _, body = line[2:].partition(b'":')
    try:
        row = KINDS[kind.decode()].model_validate_json(body.rstrip()[:-1])
        match row:
            case SourceLine():
                seal = row.sealed(agent_id)
            case NodeLine() | EdgeLine():
                evidence = [
                    each.model_copy(update={"seal": each.sealed(agent_id)}) for each in row.evidence
                ]
                row = row.model_copy(update={"evidence": evidence})
                seal = row.sealed(agent_id, [each.id for each in evidence])
            case _:
                return line
        return line_of(kind.decode(), row.model_copy(update={"seal": seal}))
    except (ValueError, OverflowError, KeyError):
        return line


async def test_what_has_no_proof_comes_back_without_one(proven: Proven) -> None:
    benin = await proven.world.unproven("Benin")
    scope = await imported(proven, await exported(proven))
    async with proven.world.database.snapshot() as session:
        assert {each.broken for each in await breaks(session, scope)} == {"unproven"}
        row = await session.get_one(GraphNode, ids.node_id(scope.agent_id, "Country", "Benin"))
        assert (row.seal, row.properties) == (None, {"summary": "A state."})
        assert row.id != benin
