"""What someone can do who can write every row of the database, and knows how Vigil seals them."""

from uuid import UUID

from sqlalchemy import text

from shared.database.transaction import Transaction

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
