"""The API under its own role may write what its routes write."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

from sqlalchemy import text

from shared.database.engine import Database
from shared.graph import entity_resolution
from shared.graph.retraction.propagation import (
    propagate_refusals,
    propagate_retractions,
    resolve_doubts,
)
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.runtime.connections import create_database
from tests.support.api.clients import MISSION, create_client
from tests.support.api.full_agent import AGENT, FullAgent, create_full_agent
from tests.support.api.rows import add_advice, add_merge, delete_pages, get_agent
from tests.support.factories import make_agent
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.secured_installation import SecuredInstallation

FALSE_PAGE: Final = "https://false.example"


async def _create_graph(owner_database: Database, name: str) -> tuple[FullAgent, RetractionGraph]:
    """An agent with everything but pages."""
    full = await create_full_agent(owner_database, name)
    agent = await get_agent(owner_database, name)
    await delete_pages(owner_database, agent)
    scope = GraphScope(agent.owner_id, agent.id)
    return full, RetractionGraph(AgentGraph(owner_database, scope, Validators()))


async def test_the_api_may_create_change_and_delete_agents(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    async with create_client(installation.settings("api")) as api:
        for key in ("first", "second", "first"):
            created = await api.post(
                "/agents", json={"mission": MISSION}, headers={"idempotency-key": key}
            )
            assert created.status_code == 201, created.text
            async with owner_database.transaction() as session:
                await session.execute(
                    text("update idempotency_keys set created_at = now() - interval '25 hours'")
                )
        listed = (await api.get("/agents")).json()["items"]
        assert len(listed) == 3, "each key had expired when it was used again"
        changed = await api.patch(f"/agents/{listed[0]['id']}", json={"interval_seconds": 60})
        assert changed.status_code == 200, changed.text
        for agent in listed:
            assert (await api.delete(f"/agents/{agent['id']}")).status_code == 204


async def test_the_api_may_read_everything_that_it_shows(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    full = await create_full_agent(owner_database)
    async with create_client(installation.settings("api")) as api:
        for path in (
            "",
            *("/iterations", "/iterations/1", "/interactions", "/graph", "/nodes", "/edges"),
            *("/node-types", "/edge-types", "/analyses", "/advice", "/calls", "/calls/summary"),
            *(
                "/investigation-requests?open=true",
                "/duplicates",
                "/merges",
                "/distinct-pairs",
                "/verification",
            ),
            *(f"/export?format={format_name}" for format_name in ("jsonl", "graphml", "prov")),
            *(f"/nodes/{full.node_id}", f"/nodes/{full.node_id}/neighbourhood?depth=2"),
        ):
            answer = await api.get(f"/agents/{AGENT}{path}")
            assert answer.status_code == 200, answer.text
        chain = f"/conclusions/{full.advice_id}/verification"
        for path in (
            *(chain, f"/interactions/{full.interaction_id}/events"),
            *("/inbox", "/dead-letters"),
        ):
            assert (await api.get(path)).status_code == 200
        for path in (f"/inbox/{full.item_id}/read", f"/inbox/{full.item_id}/unread", "/inbox/read"):
            assert (await api.post(path)).status_code == 200
        until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        for command, body in (
            ("accept", None),
            ("dismiss", None),
            ("feedback", {"useful": True, "text": "As wished"}),
            ("snooze", {"until": until}),
            ("reopen", None),
        ):
            answer = await api.post(f"/inbox/{full.item_id}/{command}", json=body)
            assert answer.status_code == 200, answer.text
        metrics = await api.get("http://127.0.0.1/metrics")
        assert "vigil_database_up 1.0" in metrics.text
        assert (await api.delete(f"/agents/{AGENT}")).status_code == 204


async def test_the_api_may_propagate_retractions(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    full, retraction_graph = await _create_graph(owner_database, AGENT)
    await retraction_graph.says(FALSE_PAGE, {"summary": "It buys."}, node_id=full.node_id)
    await retraction_graph.says(FALSE_PAGE, {}, edge_id=full.edge_id)
    before = await retraction_graph.state()
    settings = installation.settings("api")
    database = create_database(settings, "api", pool_size=2)
    async with create_client(settings) as api:
        retractions = f"/agents/{AGENT}/retractions"
        created = await api.post(retractions, json={"source": FALSE_PAGE, "reason": "made up"})
        assert created.status_code == 201, created.text
        await propagate_retractions(database)
        assert (await retraction_graph.state()).unsupported == {full.node_id, full.edge_id}
        assert full.advice_id in await retraction_graph.doubted()
        assert len(await retraction_graph.notices()) == 1
        restored = await api.post(f"{retractions}/{created.json()['id']}/restore")
        assert restored.status_code == 200, restored.text
        await propagate_retractions(database)
    await database.close()
    assert await retraction_graph.state() == before


async def test_the_api_may_resolve_doubts(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    full, retraction_graph = await _create_graph(owner_database, "Doubtful")
    await retraction_graph.says(FALSE_PAGE, {"summary": "It buys."}, node_id=full.node_id)
    await retraction_graph.retract(FALSE_PAGE)
    assert full.advice_id in await retraction_graph.doubted()
    await retraction_graph.says(
        "https://true.example", {"summary": "It buys."}, node_id=full.node_id
    )
    database = create_database(installation.settings("api"), "api", pool_size=2)
    await resolve_doubts(database)
    await database.close()
    assert full.advice_id not in await retraction_graph.doubted()
    notices = [
        notice
        for notice in await retraction_graph.notices()
        if notice.agent_id == retraction_graph.agent_graph.scope.agent_id
    ]
    assert ["No longer in doubt" in notice.title for notice in notices] == [False, True]


async def test_the_api_may_propagate_refusals(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    full, retraction_graph = await _create_graph(owner_database, "Contradicted")
    await retraction_graph.says(FALSE_PAGE, {"summary": "It buys."}, node_id=full.node_id)
    await retraction_graph.store_contradiction(full.node_id, FALSE_PAGE)
    database = create_database(installation.settings("api"), "api", pool_size=2)
    await propagate_refusals(database)
    await database.close()
    assert full.advice_id in await retraction_graph.doubted()
    assert [
        notice
        for notice in await retraction_graph.notices()
        if notice.agent_id == retraction_graph.agent_graph.scope.agent_id
    ]


async def test_the_api_may_merge_nodes_undo_merges_and_declare_nodes_distinct(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    agent = await make_agent(owner_database, name=f"Doubles {uuid4()}")
    await add_advice(owner_database, agent)
    async with owner_database.transaction() as session:
        merge_id = await add_merge(session, agent)
    async with owner_database.transaction() as session:
        await entity_resolution.undo_merge(session, GraphScope(agent.owner_id, agent.id), merge_id)
    async with create_client(installation.settings("api")) as api:
        nodes = (await api.get(f"/agents/{agent.id}/nodes?type=Thing")).raise_for_status().json()
        maker, metal, *pair = sorted(nodes["items"], key=lambda node: node["created_at"])
        for kept, removed in (pair, (metal, maker)):
            body = {"kept": kept["id"], "merged": removed["id"], "reason": "One."}
            created = await api.post(f"/agents/{agent.id}/merges", json=body)
            assert created.status_code == 201, created.text
            path = f"/agents/{agent.id}/merges/{created.json()['id']}"
            assert (await api.post(f"{path}/undo")).json()["undone_at"] is not None
        body = {"one": pair[0]["id"], "other": pair[1]["id"]}
        for _ in range(2):
            declared = await api.post(f"/agents/{agent.id}/distinct-pairs", json=body)
            assert declared.status_code == 201, declared.text
        path = f"/agents/{agent.id}/distinct-pairs/{declared.json()['id']}"
        assert (await api.delete(path)).status_code == 204
        await api.post(f"/agents/{agent.id}/distinct-pairs", json=body)
        assert (await api.delete(f"/agents/{agent.id}")).status_code == 204
