"""An agent that is deleted while another request about it is handled."""

from typing import Any

import httpx
import pytest
from sqlalchemy import delete

from services.api.auth import dependencies
from services.api.auth.dependencies import Access
from shared.database.engine import Database
from shared.database.tables import Agent
from tests.support.api.clients import MISSION


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "", {"name": "Renamed"}),
        ("PATCH", "", {"interval_seconds": 600}),
        ("GET", "", None),
        ("GET", "/prompts", None),
        ("POST", "/pause", None),
        ("POST", "/run", None),
        ("PUT", "/budget", {"usd_per_day": "1"}),
        ("POST", "/conversation/messages", {"content": "What is new?"}),
        ("POST", "/memories", {"content": "It rains."}),
        ("POST", "/configure", {"mission": MISSION}),
    ],
)
async def test_the_other_request_is_answered_as_if_it_came_later(
    api: httpx.AsyncClient,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    body: dict[str, Any] | None,
) -> None:
    find_agent_ref = dependencies.find_agent_ref

    async def find_then_delete(access: Access, reference: str) -> Any:
        found = await find_agent_ref(access, reference)
        async with database.transaction() as other_session:
            await other_session.execute(delete(Agent))
        return found

    creation = await api.post("/agents", json={"mission": MISSION})
    monkeypatch.setattr(dependencies, "find_agent_ref", find_then_delete)
    answer = await api.request(method, f"/agents/{creation.json()['id']}{path}", json=body)
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) in {
        (404, "no-such-agent"),
        (404, "deleted-meanwhile"),
    }, answer.text
