"""What who looks after the installation sees, and others do not."""

import psycopg
import pytest
from playwright.sync_api import expect

from shared.database import ids
from tests.browser.conftest import Known, Opener
from tests.support.browser.watched import Watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "<script>document.title = 'taken'</script>"
OPERATED = ("/dead-letters", "/health-of-all", "/settings/users")


def kept(known: Known, payload: bytes) -> str:
    """The id of a dead letter that is about nothing: one that says no event."""
    letter_id = str(ids.dead_letter_id("query.requested", payload))
    with psycopg.connect(known.vigil.running.database_url) as connection:
        connection.execute(
            "insert into dead_letters (id, actor, subject, payload, code, error, attempts)"
            " values (%s, 'researcher', 'query.requested', %s, 'undecodable', %s, 3)",
            (letter_id, payload, f"it says {HOSTILE}"),
        )
    return letter_id


def test_a_dead_letter_is_looked_at_and_discarded(window: Watched, known: Known) -> None:
    letter = kept(known, f'{{"told": "{HOSTILE}"}}'.encode())
    page = window.open("/dead-letters")
    item = page.locator(f"#letter-{letter}")
    expect(item).to_contain_text(HOSTILE)
    window.shoot("dead-letters")
    item.get_by_role("link", name="query.requested").click()
    expect(page.locator("pre")).to_contain_text(f'"told": "{HOSTILE}"')
    window.shoot("dead-letter")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Discard").click()
    page.wait_for_url("**/dead-letters")
    expect(page.locator(f"#letter-{letter}")).to_have_count(0)
    expect(page).to_have_title("Dead letters – Vigil")


def test_bytes_are_shown_as_such_and_a_question_may_be_answered_by_no(
    window: Watched, known: Known
) -> None:
    letter = kept(known, b"\xff\xfe\x00")
    page = window.open(f"/dead-letters/{letter}")
    expect(page.locator("pre")).to_have_text("ff fe 00")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Discard").click()
    expect(page).to_have_url(f"{known.base}/dead-letters/{letter}")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Discard").click()
    page.wait_for_url("**/dead-letters")


def test_a_letter_is_retried(window: Watched, known: Known) -> None:
    letter = kept(known, b"nothing that anybody understands")
    page = window.open(f"/dead-letters/{letter}")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Retry").click()
    page.wait_for_url("**/dead-letters")
    with psycopg.connect(known.vigil.running.database_url) as connection:
        found = connection.execute(
            "select retry_requested_at from dead_letters where id = %s", (letter,)
        ).fetchone()
    assert found is None or found[0] is not None


def test_health_tells_who_is_at_work(window: Watched) -> None:
    page = window.open("/health-of-all")
    for actor in ("scheduler", "researcher", "notifier", "api"):
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=actor))
        expect(row.get_by_role("cell").first).to_have_text("1")
    expect(page.locator("#health")).to_contain_text("sandbox-reader")
    # By itself, for the page looks again and again: then there are two looks to tell a rate.
    expect(page.get_by_role("row", name="observer").get_by_role("cell").nth(4)).not_to_have_text(
        "–", timeout=15_000
    )
    window.shoot("health")


def test_others_are_refused(another: Opener, known: Known) -> None:
    known.vigil.json("user", "add", "visitor")
    visitor = another()
    visitor.page.goto(known.link("visitor"))
    visitor.page.get_by_role("button", name="Sign in").click()
    visitor.page.wait_for_url("**/agents")
    visitor.expected.append("403")
    for path in OPERATED:
        page = visitor.open(path)
        expect(page.get_by_role("heading", name="You may not do this")).to_be_visible()
    page = visitor.open("/settings")
    expect(page.get_by_role("link", name="Users")).to_have_count(0)
    expect(page.get_by_role("heading", name="Budget of the installation")).to_have_count(0)
