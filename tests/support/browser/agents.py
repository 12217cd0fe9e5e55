"""Create agents and send them commands from a browser page."""

from playwright.sync_api import Page

from tests.support.browser.browser_window import BrowserWindow

ITERATION_TIMEOUT_MS = 60_000


def create_agent(window: BrowserWindow, mission: str, **settings: object) -> str:
    """Create an agent; returns its id."""
    window.open("/agents")
    return str(
        window.page.evaluate(
            """async (params) => {
              const response = await fetch("/api/v1/agents", {
                method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(params)});
              return (await response.json()).id;
            }""",
            {"mission": mission, "interval_seconds": 86_400, **settings},
        )
    )


def send_command(page: Page, agent_id: str, command: str) -> None:
    status = page.evaluate(
        "async (path) => (await fetch(path, {method: 'POST'})).status",
        f"/api/v1/agents/{agent_id}/{command}",
    )
    assert status in (200, 202)
