"""Agents that are made and ordered about in the window."""

from playwright.sync_api import Page

from tests.support.browser.watched import Watched

ENDS_MS = 60_000


def made(window: Watched, mission: str, **more: object) -> str:
    """The id of a new agent."""
    window.open("/agents")
    return str(
        window.page.evaluate(
            """async (wanted) => {
              const answer = await fetch("/api/v1/agents", {
                method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(wanted)});
              return (await answer.json()).id;
            }""",
            {"mission": mission, "interval_seconds": 86_400, **more},
        )
    )


def ordered(page: Page, agent_id: str, what: str) -> None:
    status = page.evaluate(
        "async (path) => (await fetch(path, {method: 'POST'})).status",
        f"/api/v1/agents/{agent_id}/{what}",
    )
    assert status in (200, 202)
