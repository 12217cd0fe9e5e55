"""Destinations under each one's own role: the api cannot read a secret again, the notifier cannot make or change one."""

from uuid import UUID, uuid4

import psycopg
import pytest

from shared.database.engine import Database
from shared.graph.conclusions import conclusions
from shared.graph.scope import GraphScope
from shared.runtime.connections import create_database
from tests.support.actors import running
from tests.support.api.asking import client_of
from tests.support.committing import COMMITTED
from tests.support.guarded import Guarded
from tests.support.making import make_agent
from tests.support.receiver import open_receiver
from tests.support.waiting import until

DENIED = [
    ("api", "select secret from webhook_secrets"),
    ("api", "select * from webhook_secrets"),
    ("api", "update webhook_secrets set secret = 'mine'"),
    ("api", "update destinations set address = 'mine'"),
    ("api", "update destinations set owner_id = gen_random_uuid()"),
    ("api", "update deliveries set status = 'delivered'"),
    ("api", "insert into deliveries (id, status) values (gen_random_uuid(), 'delivered')"),
    ("api", "delete from deliveries"),
    ("notifier", "insert into destinations (id) values (gen_random_uuid())"),
    ("notifier", "update destinations set address = 'mine'"),
    ("notifier", "insert into webhook_secrets (id) values (gen_random_uuid())"),
    ("notifier", "update webhook_secrets set secret = 'mine'"),
    ("notifier", "delete from deliveries"),
    ("notifier", "delete from destinations"),
    ("notifier", "insert into inbox_items (id) values (gen_random_uuid())"),
    ("notifier", "update inbox_items set title = 'mine'"),
    ("notifier", "select mission from agents"),
    ("notifier", "select * from messages"),
    ("notifier", "select * from llm_interactions"),
    ("notifier", "update graph_nodes set properties = '{}'"),
    ("adviser", "select * from webhook_secrets"),
    ("adviser", "select * from destinations"),
    ("researcher", "select * from destinations"),
    ("scheduler", "select * from deliveries"),
    ("operator", "select * from webhook_secrets"),
]


@pytest.mark.parametrize(("actor", "statement"), DENIED)
def test_postgres_denies(closed: Guarded, actor: str, statement: str) -> None:
    with closed.connect(actor) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


async def test_everybody_does_their_part_under_their_own_role(
    closed: Guarded, ours: Database
) -> None:
    name = f"owner {uuid4()}"
    settings = closed.settings("api", owner=name, webhook_private=True)
    notifier = closed.settings("notifier", webhook_private=True)
    async with open_receiver() as receiver, client_of(settings) as api:
        given = {"kind": "webhook", "address": receiver.url()}
        made = (await api.post("/destinations", json=given)).raise_for_status().json()
        path = f"/destinations/{made['id']}"
        rotated = (await api.post(f"{path}/rotate-secret")).raise_for_status().json()
        await api.post(f"{path}/rotate-secret")
        tested = (await api.post(f"{path}/test")).raise_for_status().json()
        await _advised(closed, ours, made["id"])
        async with running({"notifier": notifier}, ("notifier",)):
            await until(receiver.hit(2), what="the test and the advice to arrive")

            async def delivered() -> bool:
                found = (await api.get(f"{path}/deliveries")).json()["items"]
                return {each["status"] for each in found} == {"delivered"}

            await until(delivered, what="both to be recorded")
            receiver.says(b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n")
            await api.post(f"{path}/test")

            async def stopped() -> bool:
                return not (await api.get(path)).json()["active"]

            await until(stopped, what="the destination to be stopped")
        (failed,) = (await api.get(f"{path}/deliveries?status=failed")).json()["items"]
        (await api.post(f"{path}/deliveries/{failed['id']}/retry")).raise_for_status()
        (await api.patch(path, json={"active": True})).raise_for_status()
        (await api.delete(path)).raise_for_status()
    assert tested["id"] in {hit.id for hit in receiver.hits}
    assert all(hit.signed_by(made["secret"]) for hit in receiver.hits)
    assert all(hit.signed_by(rotated["secret"]) for hit in receiver.hits)


async def _advised(closed: Guarded, ours: Database, destination_id: str) -> None:
    """What the Adviser's tool does, for an agent of the destination's owner, by the Adviser's role."""
    agent = await make_agent(ours, name=f"Watch {uuid4()}", active=False)
    analysis = uuid4()
    with closed.connect("migrate") as owner:
        owner.execute(
            "update agents set owner_id = (select owner_id from destinations where id = %s)"
            " where id = %s returning owner_id",
            (destination_id, agent.id),
        )
        (owner_id,) = owner.execute(
            "select owner_id from destinations where id = %s", (destination_id,)
        ).fetchone() or (None,)
        for type_name in ("AgentAnalysis", "AgentAdvice"):
            owner.execute(
                "insert into graph_node_types (agent_id, name, description, properties_schema,"
                " created_by) values (%s, %s, '', '{}', 'system')",
                (agent.id, type_name),
            )
        owner.execute(
            "insert into graph_nodes (id, agent_id, type, name, properties)"
            " values (%s, %s, 'AgentAnalysis', 'x', '{}')",
            (analysis, agent.id),
        )
    database = create_database(closed.settings("adviser"), "adviser")
    async with database.transaction() as session:
        await conclusions.add_advice(
            session,
            GraphScope(UUID(str(owner_id)), agent.id),
            name="Hold",
            action="HOLD",
            summary="Hold.",
            content=f"Facts [node:{analysis}].",
            **COMMITTED,
        )
    await database.close()
