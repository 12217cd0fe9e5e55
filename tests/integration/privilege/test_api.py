"""The api under its own role: what its routes write, it may."""

from sqlalchemy import text

from shared.store.database import Database
from tests.integration.api.asking import MISSION, client_of
from tests.integration.api.full import AGENT, full_agent
from tests.integration.guarded import Guarded


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
            *(
                "/verification",
                *(f"/export?format={each}" for each in ("jsonl", "graphml", "prov")),
            ),
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
