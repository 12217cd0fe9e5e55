"""A graph exported, and read back into a new agent: the same, and proved as it was; or refused, and nothing left."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from sqlalchemy import func, select

from shared.graph.canonical import canonical, canonical_hash
from shared.graph.transfer.reading import BadFileError
from shared.graph.verify.told import verification
from shared.store import ids
from shared.store.tables import Agent, Base, GraphNode
from shared.store.words import ADVICE_TYPE
from tests.integration.graph.proven import Proven, prove
from tests.integration.graph.test_mutations import breaks, grow
from tests.integration.graph.transferring import exported, imported, resealed
from tests.integration.graph.world import World
from tests.seeds import repeatable


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
