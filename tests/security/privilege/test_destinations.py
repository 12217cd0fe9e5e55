"""Destinations under each service's own role: the API cannot read secrets, the notifier cannot create or change one."""

from uuid import UUID, uuid4

import psycopg
import pytest

from shared.database.engine import Database
from shared.graph.conclusions import conclusions
from shared.graph.scope import GraphScope
from shared.runtime.connections import create_database
from tests.support.api.clients import create_client
from tests.support.case_files import read_cases
from tests.support.factories import make_agent
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.running_services import running_services
from tests.support.secured_installation import SecuredInstallation
from tests.support.waiting import wait_until
from tests.support.webhook_server import open_receiver

CASES = read_cases(__file__)

DENIED = CASES["denied"]


@pytest.mark.parametrize(("service", "statement"), DENIED)
def test_postgres_denies(installation: SecuredInstallation, service: str, statement: str) -> None:
    with (
        installation.connect(service) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement)


async def test_deliveries_work_under_each_services_own_role(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    name = f"owner {uuid4()}"
    settings = installation.settings("api", owner=name, webhook_private=True)
    notifier = installation.settings("notifier", webhook_private=True)
    async with open_receiver() as receiver, create_client(settings) as api:
        body = {"kind": "webhook", "address": receiver.url()}
        created = (await api.post("/destinations", json=body)).raise_for_status().json()
        path = f"/destinations/{created['id']}"
        rotated = (await api.post(f"{path}/rotate-secret")).raise_for_status().json()
        await api.post(f"{path}/rotate-secret")
        test_delivery = (await api.post(f"{path}/test")).raise_for_status().json()
        await _add_advice(installation, owner_database, created["id"])
        async with running_services({"notifier": notifier}, ("notifier",)):
            await wait_until(receiver.hit(2), what="the test and the advice to arrive")

            async def delivered() -> bool:
                items = (await api.get(f"{path}/deliveries")).json()["items"]
                return {delivery["status"] for delivery in items} == {"delivered"}

            await wait_until(delivered, what="both to be recorded")
            receiver.respond_with(b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n")
            await api.post(f"{path}/test")

            async def stopped() -> bool:
                return not (await api.get(path)).json()["active"]

            await wait_until(stopped, what="the destination to be stopped")
        (failed,) = (await api.get(f"{path}/deliveries?status=failed")).json()["items"]
        (await api.post(f"{path}/deliveries/{failed['id']}/retry")).raise_for_status()
        (await api.patch(path, json={"active": True})).raise_for_status()
        (await api.delete(path)).raise_for_status()
    assert test_delivery["id"] in {hit.id for hit in receiver.hits}
    assert all(hit.signed_by(created["secret"]) for hit in receiver.hits)
    assert all(hit.signed_by(rotated["secret"]) for hit in receiver.hits)


async def _add_advice(
    installation: SecuredInstallation, owner_database: Database, destination_id: str
) -> None:
    """Add advice for an agent of the destination's owner, as the Adviser's tool does, under the Adviser's role."""
    agent = await make_agent(owner_database, name=f"Watch {uuid4()}", active=False)
    analysis_ids = uuid4(), uuid4()
    with installation.connect("migrate") as owner:
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
        for analysis_id in analysis_ids:
            owner.execute(
                "insert into graph_nodes (id, agent_id, type, name, properties)"
                " values (%s, %s, 'AgentAnalysis', %s, '{}')",
                (analysis_id, agent.id, str(analysis_id)),
            )
    database = create_database(installation.settings("adviser"), "adviser")
    async with database.transaction() as session:
        await conclusions.add_advice(
            session,
            GraphScope(UUID(str(owner_id)), agent.id),
            name="Hold",
            action="HOLD",
            summary="Hold.",
            content=f"Facts {' '.join(f'[node:{analysis_id}]' for analysis_id in analysis_ids)}.",
            **ADVICE_TERMS,
        )
    await database.close()
