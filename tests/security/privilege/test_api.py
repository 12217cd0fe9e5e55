"""The api under its own role: what its routes write, it may."""

from uuid import uuid4

from sqlalchemy import text

from shared.database.engine import Database
from shared.graph import entity_resolution
from shared.graph.retraction.propagation import propagate_retractions, resolve_doubts
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.runtime.connections import create_database
from tests.support.api.asking import MISSION, client_of
from tests.support.api.full import AGENT, full_agent
from tests.support.api.rows import advise, forget_pages, merged, row_of
from tests.support.graph.library import Library
from tests.support.graph.world import World
from tests.support.guarded import Guarded
from tests.support.making import make_agent


async def test_agents_are_made_once_changed_and_deleted(closed: Guarded, ours: Database) -> None:
    async with client_of(closed.settings("api")) as api:
        for key in ("first", "second", "first"):
            made = await api.post(
                "/agents", json={"mission": MISSION}, headers={"idempotency-key": key}
            )
            assert made.status_code == 201, made.text
            async with ours.transaction() as session:
                await session.execute(
                    text("update idempotency_keys set created_at = now() - interval '25 hours'")
                )
        listed = (await api.get("/agents")).json()["items"]
        assert len(listed) == 3, "each key was too old when it came again"
        changed = await api.patch(f"/agents/{listed[0]['id']}", json={"interval_seconds": 60})
        assert changed.status_code == 200, changed.text
        for agent in listed:
            assert (await api.delete(f"/agents/{agent['id']}")).status_code == 204


async def test_everything_that_is_told_may_be_read(closed: Guarded, ours: Database) -> None:
    full = await full_agent(ours)
    async with client_of(closed.settings("api")) as api:
        for path in (
            "",
            *("/iterations", "/iterations/1", "/interactions", "/graph", "/nodes", "/edges"),
            *("/node-types", "/edge-types", "/analyses", "/advice", "/calls", "/calls/summary"),
            *("/investigation-requests?open=true", "/duplicates", "/merges", "/verification"),
            *(f"/export?format={each}" for each in ("jsonl", "graphml", "prov")),
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
        metrics = await api.get("http://127.0.0.1/metrics")
        assert "vigil_database_up 1.0" in metrics.text
        assert (await api.delete(f"/agents/{AGENT}")).status_code == 204


async def test_what_rests_on_a_retracted_page_is_gone_through(
    closed: Guarded, ours: Database
) -> None:
    full = await full_agent(ours)
    agent, page = await row_of(ours, AGENT), "https://false.example"
    await forget_pages(ours, agent)
    library = Library(World(ours, GraphScope(agent.owner_id, agent.id), Validators()))
    await library.says(page, {"summary": "It buys."}, node_id=full.node_id)
    await library.says(page, {}, edge_id=full.edge_id)
    before = await library.state()
    settings = closed.settings("api")
    works = create_database(settings, "api", pool_size=2)
    async with client_of(settings) as api:
        retractions = f"/agents/{AGENT}/retractions"
        made = await api.post(retractions, json={"source": page, "reason": "made up"})
        assert made.status_code == 201, made.text
        await propagate_retractions(works)
        assert (await library.state()).unsupported == {full.node_id, full.edge_id}
        assert full.advice_id in await library.doubted()
        assert len(await library.notices()) == 1
        restored = await api.post(f"{retractions}/{made.json()['id']}/restore")
        assert restored.status_code == 200, restored.text
        await propagate_retractions(works)
    await works.close()
    assert await library.state() == before


async def test_doubts_are_lifted_with_the_rights_of_the_api(
    closed: Guarded, ours: Database
) -> None:
    full = await full_agent(ours, "Doubtful")
    agent, page = await row_of(ours, "Doubtful"), "https://false.example"
    await forget_pages(ours, agent)
    library = Library(World(ours, GraphScope(agent.owner_id, agent.id), Validators()))
    await library.says(page, {"summary": "It buys."}, node_id=full.node_id)
    await library.retract(page)
    assert full.advice_id in await library.doubted()
    await library.says("https://true.example", {"summary": "It buys."}, node_id=full.node_id)
    works = create_database(closed.settings("api"), "api", pool_size=2)
    await resolve_doubts(works)
    await works.close()
    assert full.advice_id not in await library.doubted()
    told = [each for each in await library.notices() if each.agent_id == agent.id]
    assert ["no longer" in each.title for each in told] == [False, True]


async def test_nodes_are_made_one_and_two_again(closed: Guarded, ours: Database) -> None:
    agent = await make_agent(ours, name=f"Doubles {uuid4()}")
    await advise(ours, agent)
    async with ours.transaction() as session:
        merge_id = await merged(session, agent)
    async with ours.transaction() as session:
        await entity_resolution.undo_merge(session, GraphScope(agent.owner_id, agent.id), merge_id)
    async with client_of(closed.settings("api")) as api:
        found = (await api.get(f"/agents/{agent.id}/nodes?type=Thing")).raise_for_status().json()
        maker, metal, *pair = sorted(found["items"], key=lambda each: each["created_at"])
        for kept, gone in (pair, (metal, maker)):
            given = {"kept": kept["id"], "merged": gone["id"], "reason": "One."}
            made = await api.post(f"/agents/{agent.id}/merges", json=given)
            assert made.status_code == 201, made.text
            path = f"/agents/{agent.id}/merges/{made.json()['id']}"
            assert (await api.post(f"{path}/undo")).json()["undone_at"] is not None
        assert (await api.delete(f"/agents/{agent.id}")).status_code == 204
