"""Pages for operators, their access control, and what they show of outages and deletions."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from playwright.sync_api import Page, expect

from shared.database import ids
from shared.enums import RetentionKind
from shared.provider_limits.state import ProviderState
from tests.browser.conftest import SharedInstallation
from tests.support.browser.browser_window import (
    NARROW,
    WIDE,
    BrowserWindow,
    answer_dialog,
    confirm_dialog,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAME = "the model server at http://127.0.0.1:9/v1"
PAGES = ("/agents", "/inbox", "/costs", "/operate", "/settings")
POLLED_MS = 15_000
"""The statement is read again every 10 s."""


@contextmanager
def outage(installation: SharedInstallation) -> Iterator[None]:
    """A provider that none of the services uses is unavailable."""
    now = time.time()
    state = ProviderState(
        unavailable_since=now - 120,
        failures=5,
        probe_at=now + 3600,
        error=f"no answer from {NAME}: connection refused",
    )
    with psycopg.connect(installation.vigil.running.database_url, autocommit=True) as connection:
        connection.execute(
            "insert into provider_limits (key, kind, name, version, state) values ('of-a-test', 'model', %s, 1, %s)",
            (NAME, json.dumps(state.as_json())),
        )
        try:
            yield
        finally:
            connection.execute("delete from provider_limits where key = 'of-a-test'")


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    width: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return width


def test_an_outage_is_shown_on_each_page_until_it_has_ended(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    with outage(installation):
        for path in PAGES:
            page = window.open(path)
            banner = page.locator("#outages .banner")
            expect(banner).to_have_count(1)
            expect(banner).to_contain_text(f"T{NAME[1:]} has been unavailable since")
            expect(banner).to_contain_text("connection refused")
        window.screenshot("outage")
        page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
        expect(banner).to_be_visible()
        assert overflow(page) <= 0
        sentence = banner.locator("span").first
        assert sentence.evaluate("each => each.scrollWidth <= each.clientWidth"), "it is cut off"
    expect(banner).to_have_count(0, timeout=POLLED_MS)


def test_an_outage_appears_on_an_open_page(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/agents")
    expect(page.locator("#outages .banner")).to_have_count(0)
    with outage(installation):
        page.reload()
        expect(page.locator("#outages .banner")).to_be_visible()
        page.get_by_role("link", name="Inbox").first.click()
        page.wait_for_url("**/inbox*")
        expect(page.locator("#outages .banner")).to_be_visible()


def test_health_shows_what_is_deleted_when_it_is_old(window: BrowserWindow) -> None:
    page = window.open("/operate")
    section = page.locator("#retention")
    section.scroll_into_view_if_needed()
    # One row for each kind, and one for what is kept.
    expect(section.locator("[data-retention]")).to_have_count(len(RetentionKind) + 1)
    transcripts = section.locator('[data-retention="transcripts"]')
    # The scheduler notes its limits at its first look, within a minute.
    expect(transcripts.locator('[data-label="Kept for"]')).to_have_text("30 days", timeout=90_000)
    assert section.locator(".grid").evaluate("each => each.scrollWidth <= each.clientWidth"), (
        "it is cut off"
    )
    window.screenshot("retention")
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    section.scroll_into_view_if_needed()
    expect(transcripts).to_be_visible()
    assert overflow(page) <= 0


HOSTILE = "<script>document.title = 'taken'</script>"


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
    page = window.open("/operate")
    item = page.locator(f"#letter-{dead_letter_id}")
    expect(item).to_contain_text(HOSTILE)
    window.screenshot("dead-letters")
    item.locator("summary").click()
    expect(item.locator("pre")).to_contain_text(f'"told": "{HOSTILE}"')
    window.screenshot("dead-letter")
    item.get_by_role("button", name="Discard").click()
    confirm_dialog(page)
    page.wait_for_url("**/operate?discarded=1#dead-letters")
    expect(page.get_by_text("1 message discarded.")).to_be_visible()
    expect(page.locator(f"#letter-{dead_letter_id}")).to_have_count(0)
    expect(page).to_have_title("Operate – Vigil")


def test_bytes_are_shown_in_hex_and_a_discard_can_be_cancelled(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    dead_letter_id = insert_dead_letter(installation, b"\xff\xfe\x00")
    page = window.open("/operate")
    item = page.locator(f"#letter-{dead_letter_id}")
    item.locator("summary").click()
    expect(item.locator("pre")).to_have_text("ff fe 00")
    discard = item.get_by_role("button", name="Discard")
    discard.click()
    answer_dialog(page, "Cancel")
    expect(page).to_have_url(f"{installation.base}/operate")
    discard.click()
    confirm_dialog(page)
    page.wait_for_url("**/operate?discarded=1#dead-letters")


def test_several_dead_letters_are_discarded_together(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    ids = [insert_dead_letter(installation, f"number {number}".encode()) for number in range(3)]
    page = window.open("/operate")
    discard = page.get_by_role("button", name="Discard selected")
    expect(discard).to_be_disabled()
    for dead_letter_id in ids[:2]:
        page.locator(f"#letter-{dead_letter_id}").get_by_role("checkbox").check()
    expect(page.get_by_text("2 selected")).to_be_visible()
    # The list updates itself, and keeps what is selected.
    page.evaluate("htmx.trigger('#letters', 'htmx:after:swap')")
    expect(page.locator('input[name="letter"]:checked')).to_have_count(2)
    discard.click()
    answer_dialog(page, "Cancel")
    expect(page).to_have_url(f"{installation.base}/operate")
    discard.click()
    confirm_dialog(page)
    page.wait_for_url("**/operate?discarded=2#dead-letters")
    expect(page.locator(f"#letter-{ids[0]}")).to_have_count(0)
    page.get_by_label("Select all").check()
    expect(page.locator('input[name="letter"]:not(:checked)')).to_have_count(0)
    page.get_by_role("button", name="Retry selected").click()
    page.wait_for_url("**/operate?retried=*")


def test_a_dead_letter_is_retried(window: BrowserWindow, installation: SharedInstallation) -> None:
    dead_letter_id = insert_dead_letter(installation, b"nothing that anybody understands")
    page = window.open("/operate")
    find = "select retry_requested_at, stored_at from dead_letters where id = %s"
    with psycopg.connect(installation.vigil.running.database_url, autocommit=True) as connection:
        before = connection.execute(find, (dead_letter_id,)).fetchone()
        assert before is not None
        item = page.locator(f"#letter-{dead_letter_id}")
        item.get_by_role("button", name="Retry").click()
        page.wait_for_url("**/operate?retried=1&refused=0#dead-letters")
        expect(page.get_by_text("1 retry requested.")).to_be_visible()
        after = connection.execute(find, (dead_letter_id,)).fetchone()
    # The scheduler may have published it already, and the researcher may have failed again.
    assert after is None or after[0] is not None or after[1] > before[1]


def test_health_shows_the_running_services(window: BrowserWindow) -> None:
    page = window.open("/operate")
    for service in ("scheduler", "researcher", "notifier", "api"):
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=service))
        expect(row.get_by_role("cell").first).to_have_text("1")
    expect(page.locator("#installation")).to_contain_text("sandbox-reader")
    expect(page.locator(".sum-up h2")).to_have_text(re.compile(r"Everything works\.|attention\."))
    expect(page.get_by_role("row", name="Observer").get_by_role("cell").last).to_have_text(
        "Connected"
    )
    # Without a reload: the page polls, and the rate needs two samples.
    expect(page.get_by_role("row", name="observer").get_by_role("cell").nth(4)).not_to_have_text(
        "–", timeout=15_000
    )
    bars = page.locator("[data-service=observer] [data-history] rect")
    expect(bars).to_have_count(60)
    window.screenshot("health")
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
    for cell in page.get_by_role("row", name="Observer").get_by_role("cell").all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= NARROW["width"]
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]  # a TypedDict of these two


def test_a_healthy_installation_says_so(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    with psycopg.connect(installation.vigil.running.database_url) as connection:
        connection.execute("delete from dead_letters")
    page = window.open("/operate")
    expect(page.locator(".sum-up h2")).to_have_text("Everything works.", timeout=30_000)
    # Nothing failed permanently, so that the navigation has no count.
    expect(page.locator(".rail [data-key=o] .badge")).to_have_count(0)
    window.screenshot("health-good")


def test_dead_letters_need_attention_and_are_linked(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    dead_letter_id = insert_dead_letter(installation, b"something that nobody can read")
    page = window.open("/operate")
    expect(page.locator(".rail [data-key=o] .badge")).to_contain_text("failed permanently")
    expect(page.locator(".sum-up h2")).to_contain_text("need")
    expect(page.locator(".sum-up")).to_contain_text("failed permanently")
    window.screenshot("health-attention")
    page.get_by_role("link", name="Open dead letters").click()
    page.locator(f"#letter-{dead_letter_id}").get_by_role("button", name="Discard").click()
    confirm_dialog(page)
    page.wait_for_url("**/operate?discarded=1#dead-letters")
