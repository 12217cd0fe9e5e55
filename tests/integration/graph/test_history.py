"""The history of a graph can be checked from a root on, is cited by imports, and can be signed."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import delete, select, text, update

from shared.database.engine import Database
from shared.database.signing import JournalSigner
from shared.database.tables import GraphHead, GraphJournal
from shared.errors import PermanentError
from shared.graph.verification.journal import load_entries
from shared.graph.verification.verifier import check_page
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.forging import change_node, seal_journal
from tests.support.graph.graph_with_evidence import EvidenceGraph
from tests.support.graph.history import read_journal
from tests.support.graph.transfer import exported, imported
from tests.support.graph.walking import Walk
from tests.support.seeds import repeatable
from tests.support.signing import new_signing_key

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
