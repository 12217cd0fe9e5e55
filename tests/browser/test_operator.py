"""Pages for operators of the installation, and their access control."""

import psycopg
import pytest
from playwright.sync_api import expect

from shared.database import ids
from tests.browser.conftest import SharedInstallation, WindowFactory
from tests.support.browser.browser_window import BrowserWindow

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "<script>document.title = 'taken'</script>"
OPERATOR_PAGES = ("/dead-letters", "/health-of-all", "/settings/users")


def insert_dead_letter(installation: SharedInstallation, payload: bytes) -> str:
    """Insert a dead letter whose payload is not an event; returns its id."""
    dead_letter_id = str(ids.dead_letter_id("query.requested", payload))
    with psycopg.connect(installation.vigil.running.database_url) as connection:
        connection.execute(
            "insert into dead_letters (id, service, subject, payload, code, error, attempts)"
            " values (%s, 'researcher', 'query.requested', %s, 'undecodable', %s, 3)",
            (dead_letter_id, payload, f"it says {HOSTILE}"),
        )
    return dead_letter_id


def test_a_dead_letter_is_viewed_and_discarded(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    dead_letter_id = insert_dead_letter(installation, f'{{"told": "{HOSTILE}"}}'.encode())
    page = window.open("/dead-letters")
    item = page.locator(f"#letter-{dead_letter_id}")
    expect(item).to_contain_text(HOSTILE)
    window.screenshot("dead-letters")
    item.get_by_role("link", name="query.requested").click()
    expect(page.locator("pre")).to_contain_text(f'"told": "{HOSTILE}"')
    window.screenshot("dead-letter")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Discard").click()
    page.wait_for_url("**/dead-letters")
    expect(page.locator(f"#letter-{dead_letter_id}")).to_have_count(0)
    expect(page).to_have_title("Dead letters – Vigil")


def test_bytes_are_shown_in_hex_and_a_discard_can_be_cancelled(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    dead_letter_id = insert_dead_letter(installation, b"\xff\xfe\x00")
    page = window.open(f"/dead-letters/{dead_letter_id}")
    expect(page.locator("pre")).to_have_text("ff fe 00")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Discard").click()
    expect(page).to_have_url(f"{installation.base}/dead-letters/{dead_letter_id}")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Discard").click()
    page.wait_for_url("**/dead-letters")


def test_a_dead_letter_is_retried(window: BrowserWindow, installation: SharedInstallation) -> None:
    dead_letter_id = insert_dead_letter(installation, b"nothing that anybody understands")
    page = window.open(f"/dead-letters/{dead_letter_id}")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Retry").click()
    page.wait_for_url("**/dead-letters")
    with psycopg.connect(installation.vigil.running.database_url) as connection:
        row = connection.execute(
            "select retry_requested_at from dead_letters where id = %s", (dead_letter_id,)
        ).fetchone()
    assert row is None or row[0] is not None


def test_health_shows_the_running_services(window: BrowserWindow) -> None:
    page = window.open("/health-of-all")
    for service in ("scheduler", "researcher", "notifier", "api"):
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=service))
        expect(row.get_by_role("cell").first).to_have_text("1")
    expect(page.locator("#health")).to_contain_text("sandbox-reader")
    # Without a reload: the page polls, and the rate needs two samples.
    expect(page.get_by_role("row", name="observer").get_by_role("cell").nth(4)).not_to_have_text(
        "–", timeout=15_000
    )
    window.screenshot("health")


def test_other_users_are_rejected(
    open_window: WindowFactory, installation: SharedInstallation
) -> None:
    installation.vigil.json("user", "add", "visitor")
    visitor = open_window()
    visitor.page.goto(installation.link("visitor"))
    visitor.page.get_by_role("button", name="Sign in").click()
    visitor.page.wait_for_url("**/agents")
    visitor.expected.append("403")
    for path in OPERATOR_PAGES:
        page = visitor.open(path)
        expect(page.get_by_role("heading", name="You may not do this")).to_be_visible()
    page = visitor.open("/settings")
    expect(page.get_by_role("link", name="Users")).to_have_count(0)
    expect(page.get_by_role("heading", name="Budget of the installation")).to_have_count(0)
