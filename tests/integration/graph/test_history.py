"""The journal of a graph names the rows that changed, and is checked from a root on, cited and signed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import delete, func, select, text, update

from shared.database.engine import Database
from shared.database.signing import JournalSigner
from shared.database.tables import Agent, GraphEdge, GraphHead, GraphJournal, GraphNode
from shared.database.tables.graph import GRAPH_CHANGES
from shared.database.transaction import Transaction
from shared.errors import PermanentError, RetrySoonError
from shared.graph.verification.journal import load_entries
from shared.graph.verification.verifier import check_page
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.graph_with_evidence import EvidenceGraph
from tests.support.graph.history import Snapshot, read_journal, replay, take_snapshot
from tests.support.graph.transfer import exported, imported
from tests.support.graph.walking import Walk
from tests.support.seeds import repeatable
from tests.support.signing import new_signing_key

_LEAF = text("select graph_leaf(nodes) from graph_nodes as nodes where id = :node")
_REPLACE_LEAF = text(
    "update graph_journal set added = array_replace(added, :old, :new)"
    " where agent_id = :agent and :old = any(added) returning seq"
)
_ENTRIES = text("select seq from graph_journal where agent_id = :agent order by seq")
_SEAL_ENTRY = text("""
update graph_journal set root = sha256(array_send(added) || array_send(removed)), hash = sha256(
  coalesce((select hash from graph_journal as before where agent_id = :agent and before.seq = :seq - 1), '')
  || int8send(seq) || int8send((extract(epoch from written_at) * 1000000)::bigint)
  || coalesce(uuid_send(step_id), '') || array_send(changed) || array_send(deleted) || array_send(types)
  || sha256(array_send(added) || array_send(removed)) || int4send(octet_length(writer)) || convert_to(writer, 'UTF8')
  || coalesce(cited_root, '')
) where agent_id = :agent and seq = :seq
""")
_SEAL_HEAD = text("""
update graph_head set seq = newest.seq, hash = newest.hash from (
  select seq, hash from graph_journal where agent_id = :agent order by seq desc limit 1
) as newest where agent_id = :agent
""")


async def change_node(session: Transaction, agent_id: UUID, node_id: UUID, change: str) -> None:
    """Change a node without the triggers, and seal the whole journal again as if it had always been so."""
    await session.execute(text("set local session_replication_role = replica"))
    old = await session.scalar(_LEAF, {"node": node_id})
    await session.execute(
        text(f"update graph_nodes set {change} where id = :node"), {"node": node_id}
    )
    new = await session.scalar(_LEAF, {"node": node_id})
    replaced = await session.execute(_REPLACE_LEAF, {"agent": agent_id, "old": old, "new": new})
    assert replaced.all()
    await seal_journal(session, agent_id)


async def seal_journal(session: Transaction, agent_id: UUID) -> None:
    """Compute every hash again, and the head."""
    for seq in list(await session.scalars(_ENTRIES, {"agent": agent_id})):
        await session.execute(_SEAL_ENTRY, {"agent": agent_id, "seq": seq})
    await session.execute(_SEAL_HEAD, {"agent": agent_id})


STEPS: Final = 30


@pytest.fixture
async def signed_graph(database_url: str) -> AsyncIterator[AgentGraph]:
    """A graph whose writer has a key."""
    signer = JournalSigner(Ed25519PrivateKey.generate())
    database = Database(database_url, name="test", signer=signer)
    yield await make_agent_graph(database)
    await database.close()


async def check(
    graph: AgentGraph,
    *,
    since: bytes | None = None,
    signer: JournalSigner | None = None,
    is_history_only: bool = False,
) -> list[str]:
    """The messages of all faults, of the quotes too unless `is_history_only`."""
    messages: list[str] = []
    cursor: str | None = None
    while True:
        async with graph.database.snapshot() as session:
            page = await check_page(
                session,
                graph.scope,
                cursor=cursor,
                rows=7,
                since=since,
                signer=signer or graph.database.signer,
            )
        if is_history_only and page.checked.sources:
            return messages
        messages += [fault.message for fault in page.breaks]
        cursor = page.next
        if cursor is None:
            return messages


async def newest_root(graph: AgentGraph) -> bytes:
    async with graph.database.snapshot() as session:
        head = await session.get(GraphHead, graph.scope.agent_id)
        assert head is not None
        return head.hash


async def psql(graph: AgentGraph, statement: str, application_name: str = "psql") -> None:
    """Run and commit a statement as another program."""
    async with graph.database.transaction() as session:
        await session.execute(text(f"set local application_name = '{application_name}'"))
        await session.execute(text(statement))


async def test_the_history_is_checked_from_a_root_on(agent_graph: AgentGraph, seed: int) -> None:
    with repeatable(seed):
        walk = Walk(agent_graph, Random(seed))
        await walk.begin()
        root = await newest_root(agent_graph)
        for _ in range(STEPS):
            await walk.step()
            assert await check(agent_graph, since=root) == []
        assert await check(agent_graph, since=await newest_root(agent_graph)) == []
    await psql(agent_graph, "update graph_names set created_at = now()")
    assert len(await check(agent_graph, since=root)) > 1


async def test_a_history_that_was_replaced_lacks_the_root(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    root = await newest_root(agent_graph)
    async with agent_graph.database.transaction() as session:
        await change_node(session, agent_graph.scope.agent_id, ghana, "updated_at = now()")
    assert await check(agent_graph) == [], "without a key, whoever can write all rows can do this"
    [message] = await check(agent_graph, since=root)
    assert message.startswith(f"no entry has the root {root.hex()}")


async def test_entries_that_are_cut_off_are_missed(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Ghana")
    await agent_graph.node("Togo")
    root = await newest_root(agent_graph)
    async with agent_graph.database.transaction() as session:
        entries = await read_journal(session, agent_graph.scope.agent_id)
        await session.execute(delete(GraphJournal).where(GraphJournal.seq == entries[-1].seq))
    assert "the newest entries are missing" in await check(agent_graph, is_history_only=True)
    async with agent_graph.database.transaction() as session:
        await seal_journal(session, agent_graph.scope.agent_id)
    messages = await check(agent_graph, since=root)
    assert messages[0].startswith("no entry has the root")
    assert any(message.startswith("this node was added") for message in messages)


async def test_the_program_that_changed_a_graph_is_named(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Ghana")
    await psql(agent_graph, "update graph_nodes set unsupported_since = now()")
    messages = await check(agent_graph, is_history_only=True)
    assert messages[0].startswith("the graph was changed by 'psql', which is not Vigil, at ")
    assert "this node was added or changed by something that is not Vigil" in messages


async def test_a_program_is_named_whatever_table_it_changes(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Ghana")
    for table in ("graph_names", "sources", "evidence"):
        await psql(agent_graph, f"update {table} set step_id = gen_random_uuid()")
        async with agent_graph.database.snapshot() as session:
            entries = await load_entries(session, agent_graph.scope, 0, 1000)
        assert entries[-1].writer == "psql", table


async def test_parts_of_an_entry_cannot_be_moved_into_others(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Ghana")
    async with agent_graph.database.transaction() as session:
        moved = update(GraphJournal).where(GraphJournal.seq == 1)
        await session.execute(moved.values(writer="vigil-", cited_root=b"test"))
    assert await check(agent_graph, is_history_only=True)


async def test_an_entry_without_a_root_has_no_leaves(agent_graph: AgentGraph) -> None:
    """As those of before there were leaves."""
    await agent_graph.node("Ghana")
    async with agent_graph.database.transaction() as session:
        entries = await read_journal(session, agent_graph.scope.agent_id)
        last = update(GraphJournal).where(GraphJournal.seq == entries[-1].seq)
        await session.execute(last.values(root=None, writer=None, removed=None))
    messages = await check(agent_graph, is_history_only=True)
    assert any("its hash does not match" in message for message in messages)
    assert any("was added or changed" in message for message in messages)


async def test_a_row_that_was_changed_outside_is_found_after_vigil_has_written_it_again(
    agent_graph: AgentGraph,
) -> None:
    ghana = await agent_graph.node("Ghana")
    async with agent_graph.database.transaction() as session:
        await session.execute(text("set local session_replication_role = replica"))
        await session.execute(
            text("update graph_nodes set step_id = gen_random_uuid() where id = :id"), {"id": ghana}
        )
    await agent_graph.node("Ghana", capital="Accra")
    messages = await check(agent_graph, is_history_only=True)
    assert any("had been changed by something that is not Vigil" in each for each in messages)


async def test_a_graph_without_entries_holds(agent_graph: AgentGraph, stranger: AgentGraph) -> None:
    await agent_graph.node("Ghana")
    async with agent_graph.database.transaction() as session:
        nobody = stranger.scope.agent_id
        assert await read_journal(session, nobody)
    assert await check(stranger) == []


async def test_an_import_cites_the_root_of_the_exported_graph(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Ghana")
    evidence_graph = EvidenceGraph(agent_graph)
    scope = await imported(evidence_graph, await exported(evidence_graph))
    async with agent_graph.database.transaction() as session:
        entries = await read_journal(session, scope.agent_id)
    root = await newest_root(agent_graph)
    assert [entry.cited_root for entry in entries] == [root, *[None] * (len(entries) - 1)]
    copy = AgentGraph(agent_graph.database, scope, agent_graph.validators)
    assert await check(copy) == []
    async with agent_graph.database.transaction() as session:
        of_copy = GraphJournal.agent_id == scope.agent_id
        await session.execute(update(GraphJournal).where(of_copy).values(cited_root=None))
    [message] = await check(copy, is_history_only=True)
    assert "its hash does not match" in message


async def test_each_entry_is_signed(signed_graph: AgentGraph, seed: int) -> None:
    with repeatable(seed):
        walk = Walk(signed_graph, Random(seed))
        await walk.begin()
        for _ in range(STEPS):
            await walk.step()
    async with signed_graph.database.snapshot() as session:
        signatures = await session.scalars(select(GraphJournal.signature))
        assert {len(signature or b"") for signature in signatures} == {64}
    assert await check(signed_graph, is_history_only=True) == []


async def test_a_history_that_was_sealed_again_is_not_signed(signed_graph: AgentGraph) -> None:
    ghana = await signed_graph.node("Ghana")
    agent_id = signed_graph.scope.agent_id
    async with signed_graph.database.transaction() as session:
        await change_node(session, agent_id, ghana, "updated_at = now()")
    messages = await check(signed_graph)
    assert any("is not by the present key" in message for message in messages)


async def test_an_entry_of_a_writer_without_the_key_is_not_signed(
    signed_graph: AgentGraph, database: Database
) -> None:
    """It calls itself Vigil, and writes what Vigil would."""
    await signed_graph.node("Ghana")
    assert await check(signed_graph) == []
    imitation = AgentGraph(database, signed_graph.scope, signed_graph.validators)
    await imitation.node("Togo")
    async with database.snapshot() as session:
        last = (await read_journal(session, signed_graph.scope.agent_id))[-1].seq
    await signed_graph.node("Mali")
    assert await check(signed_graph) == [
        f"entry {last} is not signed: it was written without the key"
    ]
    assert await check(imitation) == []


async def test_another_key_is_not_the_present_one(signed_graph: AgentGraph) -> None:
    await signed_graph.node("Ghana")
    other = JournalSigner(Ed25519PrivateKey.generate())
    messages = await check(signed_graph, signer=other)
    assert messages
    assert all("is not by the present key" in message for message in messages)


async def test_a_graph_from_before_there_was_a_key_holds(
    signed_graph: AgentGraph, database: Database
) -> None:
    earlier = await make_agent_graph(database, "earlier")
    await earlier.node("Ghana")
    later = AgentGraph(signed_graph.database, earlier.scope, earlier.validators)
    assert await check(later) == []
    await later.node("Togo")
    assert await check(later) == []


def test_keys_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    pem = new_signing_key()
    path.write_bytes(pem)
    JournalSigner.load(path)
    for content, reason in ((b"", "cannot be read"), (pem[:-40], "cannot be read")):
        path.write_bytes(content)
        with pytest.raises(PermanentError, match=reason):
            JournalSigner.load(path)
    with pytest.raises(PermanentError, match="cannot be read"):
        JournalSigner.load(tmp_path / "missing.pem")


WALK_STEPS: Final = 40
STEPS_TO_FIND: Final = 400
"""After so many steps, a walk has made every kind of change."""
WALKERS: Final = 6
STEPS_OF_WALKER: Final = 20
PAIRS: Final = 30
NOTERS: Final = [
    ("graph_nodes", "note_insert"),
    ("graph_nodes", "note_update"),
    ("graph_nodes", "note_delete"),
    ("graph_edges", "note_insert"),
    ("graph_edges", "note_update"),
    ("graph_edges", "note_delete"),
    ("graph_node_types", "note_insert"),
    ("graph_edge_types", "note_insert"),
    ("graph_changes", "write_graph_journal"),
]


async def snapshot(graph: AgentGraph) -> Snapshot:
    async with graph.database.snapshot() as session:
        return await take_snapshot(session, graph.scope.agent_id)


async def journal(graph: AgentGraph) -> Sequence[GraphJournal]:
    async with graph.database.snapshot() as session:
        left = await session.scalar(select(func.count()).select_from(GRAPH_CHANGES))
        assert left == 0, f"the journal lacks {left} changes"
        return await read_journal(session, graph.scope.agent_id)


async def walk_and_check(graph: AgentGraph, seed: int, steps: int) -> None:
    """Compare the graph after each step of a walk with the one before, and random ones with each other."""
    chance = Random(seed)
    walk = Walk(graph, chance)
    snapshots = [Snapshot(0, {}), await snapshot(graph)]
    replay(await journal(graph), *snapshots)
    await walk.begin()
    for _ in range(steps):
        await roll_back(graph, chance)
        await walk.step()
        snapshots.append(await snapshot(graph))
        replay(await journal(graph), *snapshots[-2:])
    entries = await journal(graph)
    for _ in range(PAIRS):
        first, last = sorted(chance.sample(range(len(snapshots)), 2))
        replay(entries, snapshots[first], snapshots[last])


class CommitForbiddenError(Exception):
    """Undoes a change."""


async def roll_back(graph: AgentGraph, chance: Random) -> None:
    """Change rows in a transaction that is rolled back, or in a savepoint that is."""
    change = text("update graph_nodes set properties = '{}' where agent_id = :agent")
    params = {"agent": graph.scope.agent_id}
    in_savepoint = chance.random() < 0.5
    with suppress(CommitForbiddenError):
        async with graph.database.transaction() as session:
            if not in_savepoint:
                await session.execute(change, params)
                raise CommitForbiddenError
            with suppress(CommitForbiddenError):
                async with session.savepoint():
                    await session.execute(change, params)
                    raise CommitForbiddenError


@pytest.mark.parametrize("number", range(2))
async def test_replaying_the_journal_names_exactly_the_rows_that_changed(
    agent_graph: AgentGraph, seed: int, number: int
) -> None:
    with repeatable(seed):
        await walk_and_check(agent_graph, seed + number, WALK_STEPS)


def context_of(error: BaseException) -> str:
    """The message with the function and row at which PostgreSQL raised it."""
    cause = getattr(error.__cause__, "orig", error.__cause__)
    context = cause.diag.context if isinstance(cause, psycopg.Error) else None
    return f"{error} {context or ''}"


async def test_writers_at_once_have_one_history(agent_graph: AgentGraph, seed: int) -> None:
    has_ended = asyncio.Event()
    snapshots = [Snapshot(0, {})]
    retried: list[str] = []

    async def watch() -> None:
        while not has_ended.is_set():
            snapshots.append(await snapshot(agent_graph))

    async def run(number: int) -> None:
        walk = Walk(agent_graph, Random(seed + number), is_alone=False)
        for _ in range(STEPS_OF_WALKER):
            try:
                await walk.step()
            except RetrySoonError as error:
                retried.append(context_of(error))

    with repeatable(seed):
        await Walk(agent_graph, Random(seed)).begin()
        watcher = asyncio.create_task(watch())
        await asyncio.gather(*[run(number) for number in range(WALKERS)])
        has_ended.set()
        await watcher
        snapshots.append(await snapshot(agent_graph))
        assert [error for error in retried if "graph_journal" in error] == []
        entries = await journal(agent_graph)
        for earlier, later in pairwise(snapshots):
            replay(entries, earlier, later)


@pytest.mark.parametrize(("table", "trigger"), NOTERS)
async def test_a_writer_that_leaves_out_the_journal_is_found(
    agent_graph: AgentGraph, seed: int, table: str, trigger: str
) -> None:
    """Each trigger is one of the places in which the journal could be left out."""
    database = agent_graph.database
    graph = await make_agent_graph(database, "another")
    async with database.transaction() as session:
        await session.execute(text(f"alter table {table} disable trigger {trigger}"))
    await graph.node_type("City")
    await graph.edge_type("contains")

    with repeatable(seed), pytest.raises(AssertionError, match="the journal"):
        await walk_and_check(graph, seed, STEPS_TO_FIND)
    async with database.transaction() as session:
        await session.execute(text(f"alter table {table} enable trigger {trigger}"))


async def test_an_imported_graph_has_a_history_of_its_own(agent_graph: AgentGraph) -> None:
    walk = Walk(agent_graph, Random(1))
    await walk.begin()
    await walk.add_edge()
    file = await exported(EvidenceGraph(agent_graph))
    scope = await imported(EvidenceGraph(agent_graph), file)
    copy = replace(agent_graph, scope=scope)
    replay(await journal(copy), Snapshot(0, {}), await snapshot(copy))


async def test_a_deleted_agent_leaves_no_history(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    await Walk(agent_graph, Random(1)).begin()
    async with agent_graph.database.transaction() as session:
        await session.execute(delete(Agent).where(Agent.id == agent_graph.scope.agent_id))
    async with agent_graph.database.transaction() as session:
        agents = {
            *await session.scalars(select(GraphHead.agent_id)),
            *await session.scalars(select(GraphJournal.agent_id)),
            *await session.scalars(select(GRAPH_CHANGES.c.agent_id)),
        }
    assert agents == {stranger.scope.agent_id}


async def test_a_change_that_changes_nothing_has_no_entry(agent_graph: AgentGraph) -> None:
    node = await agent_graph.node("Ghana")
    before = await snapshot(agent_graph)
    async with agent_graph.database.transaction() as session:
        await session.execute(text("update graph_nodes set name = name"))
        await session.execute(delete(GraphEdge))
    assert (await snapshot(agent_graph)).seq == before.seq
    async with agent_graph.database.transaction() as session:
        await session.execute(
            text("update graph_nodes set properties = '{}' where id = :id"), {"id": node}
        )
        await session.execute(delete(GraphNode).where(GraphNode.id == node))
    [*_, last] = await journal(agent_graph)
    assert (last.changed, last.deleted, last.types) == ([], [node], [])


async def test_an_element_that_is_deleted_and_inserted_again_has_changed(
    agent_graph: AgentGraph,
) -> None:
    node = await agent_graph.node("Ghana")
    async with agent_graph.database.transaction() as session:
        await session.execute(
            text("create temporary table kept on commit drop as select * from graph_nodes")
        )
        await session.execute(delete(GraphNode).where(GraphNode.id == node))
        await session.execute(
            text("insert into graph_nodes select * from kept where id = :id"), {"id": node}
        )
    [*_, last] = await journal(agent_graph)
    assert (last.changed, last.deleted) == ([node], [])
