"""Signing in, and the overview of all agents."""

import re
from uuid import UUID

import psycopg
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import AGENT, SharedInstallation, WindowFactory
from tests.support.browser import agent_data
from tests.support.browser.browser_window import BrowserWindow
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

pytestmark = pytest.mark.browser

WATCHED = CASES["watched"]
MAX_ROW_PX = 72
"""Three lines of text: a name, a mission or a result, and what is next."""


def test_a_signed_out_user_is_redirected_to_sign_in(
    open_window: WindowFactory, installation: SharedInstallation
) -> None:
    stranger = open_window()
    page = stranger.open("/agents")
    expect(page).to_have_url(f"{installation.base}/sign-in")
    stranger.screenshot("sign-in")
    page.get_by_label("Name or email address").fill("nobody")
    page.get_by_role("button", name="Send sign-in link").click()
    expect(page.get_by_role("status")).to_contain_text("on its way")


def test_a_link_signs_in_once_and_a_button_signs_out(
    open_window: WindowFactory, installation: SharedInstallation
) -> None:
    person, link = open_window(), installation.link()
    person.page.goto(link)
    person.page.get_by_role("button", name="Sign in").click()
    expect(person.page.get_by_role("heading", name="Agents", exact=True)).to_be_visible()
    person.expected.append("410")
    person.page.goto(link)
    person.page.get_by_role("button", name="Sign in").click()
    expect(person.page.get_by_role("heading", name="This link no longer works")).to_be_visible()
    page = person.open("/agents")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{installation.base}/sign-in")
    person.open("/agents")
    expect(page).to_have_url(f"{installation.base}/sign-in")


def test_the_list_shows_the_state_and_the_last_result_of_each_agent(window: BrowserWindow) -> None:
    page = window.open("/agents")
    row = page.get_by_role("row", name=AGENT)
    expect(row.get_by_text("watching")).to_be_visible()
    expect(row.get_by_role("img", name="completed")).to_be_visible()
    expect(row.get_by_role("img", name="outcomes of the last 1 iteration")).to_be_visible()
    expect(row).to_contain_text("every 1 d")
    window.screenshot("agents")


def test_agents_are_filtered_and_a_filter_is_saved(window: BrowserWindow) -> None:
    page = window.open("/agents")
    page.get_by_role("link", name="Paused").click()
    page.wait_for_url("**state=paused*")
    expect(page.get_by_role("row", name=AGENT)).to_have_count(0)
    page.get_by_role("button", name="Save filter").click()
    window.open("/agents")
    expect(page.get_by_role("row", name=AGENT)).to_be_visible()
    page.get_by_role("link", name="paused", exact=True).click()
    page.wait_for_url("**state=paused*")
    page.get_by_role("button", name="Remove the filter paused").click()
    expect(page.get_by_role("button", name="Save filter")).to_be_visible()


def test_a_list_of_many_agents_is_dense(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    url = installation.vigil.running.database_url
    other = UUID(installation.agent_id)
    names = [f"Desk {number}: {what}" for number, what in enumerate(WATCHED, 1)]
    ids = [
        agent_data.run_in_thread(agent_data.create_agent(url, other, name)).agent_id
        for name in names
    ]
    try:
        page = window.open("/agents")
        rows = page.locator("[data-agent-row]", has_text=re.compile(r"Desk \d+:"))
        expect(rows).to_have_count(len(names))
        heights = rows.evaluate_all("rows => rows.map((row) => row.clientHeight)")
        assert max(heights) <= MAX_ROW_PX
        page.get_by_role("link", name="Paused", exact=True).click()
        page.wait_for_url("**state=paused*")
        page.get_by_role("button", name="Save filter").click()
        window.open("/agents")
        expect(page.get_by_role("link", name="paused", exact=True)).to_be_visible()
        window.screenshot("agents-many")
    finally:
        with psycopg.connect(url) as connection:
            connection.execute("delete from agents where id = any(%s)", (ids,))


def test_the_palette_finds_an_agent_and_a_page_by_keyboard(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/costs")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Search and commands")
    expect(palette.get_by_role("option", name="New agent")).to_be_visible()
    window.check_accessibility()
    page.keyboard.type(AGENT[:7].lower())
    chosen = palette.locator('[aria-selected="true"]')
    expect(chosen).to_contain_text(AGENT)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/agents/{installation.agent_id}")
    page.keyboard.press("Control+k")
    page.keyboard.type("iterations")
    expect(chosen).to_contain_text("Iterations")
    page.keyboard.press("Enter")
    page.wait_for_url("**/iterations")


def test_a_wrong_form_shows_its_errors_beside_the_fields(window: BrowserWindow) -> None:
    window.expected.append("422")
    page = window.open("/agents/new")
    page.get_by_label("Mission").fill("too short")
    page.get_by_label("Run every").fill("5 parsecs")
    page.get_by_label("Daily budget").fill("lots")
    columns = [page.get_by_label(label).bounding_box() for label in ("Run every", "Daily budget")]
    page.get_by_role("button", name="Create agent").click()
    for label, words in (("Mission", "10"), ("Run every", "5 parsecs"), ("Daily budget", "lots")):
        field = page.get_by_label(label)
        expect(field).to_have_attribute("aria-invalid", "true")
        described = [f"#{name}" for name in str(field.get_attribute("aria-describedby")).split()]
        expect(page.locator(f"{described[0]}.field-error")).to_contain_text(words)
    expect(page.get_by_label("Run every")).to_have_value("5 parsecs")
    expect(page.locator("#interval_seconds-error")).to_contain_text("“5 parsecs”")
    for label, before in zip(("Run every", "Daily budget"), columns, strict=True):
        box = page.get_by_label(label).bounding_box()
        assert before is not None
        assert box is not None
        assert (box["x"], box["width"]) == (before["x"], before["width"])
    window.screenshot("agents-new-wrong")


def test_the_forecast_follows_the_interval(window: BrowserWindow) -> None:
    page = window.open("/agents/new")
    forecast = page.get_by_role("complementary", name="Forecast")
    expect(forecast).to_contain_text("Not billed")
    # With the sandbox, the cost of a real model is shown as one that is not billed.
    expect(forecast.get_by_role("heading", name="With real services estimate")).to_be_visible()
    expect(forecast).to_contain_text(
        re.compile(r"With gpt-5\.4-mini .* about \$[1-9]\d?\.\d\d a day")
    )
    starts = forecast.locator(".assumed dd")
    expect(starts).to_have_text(["288 a day", "37 a day"])
    page.get_by_label("Run every").fill("1 min")
    expect(starts).to_have_text(["1,440 a day", "37 a day"])
    page.get_by_label("Run every").fill("1 d")
    expect(starts).to_have_text(["1 a day", "all"])
    page.get_by_label("Run every").fill("7 d")
    expect(starts).to_have_text(["one every 7 d", "all"])
    page.get_by_label("Run every").fill("soon")
    expect(forecast).to_contain_text("Enter an interval")


def test_an_agent_is_created_from_a_sentence_and_shown_being_configured(
    window: BrowserWindow,
) -> None:
    page = window.open("/agents")
    page.get_by_role("link", name="New agent").click()
    page.get_by_role("button", name="Supply risks").click()
    expect(page.get_by_label("Mission")).to_have_value(re.compile("Follow lithium producers"))
    window.screenshot("agents-new")
    page.get_by_label("Mission").fill("Watch nickel mines and who owns them")
    page.get_by_text("More options").click()
    page.get_by_label("Preferred domains").fill("Reuters.com, ft.com")
    page.get_by_label("Barred domains").fill("press.example\nads.ft.com")
    page.get_by_role("button", name="Create agent").click()
    page.wait_for_url("**/agents/*-*")
    page.goto(f"{page.url}/settings")
    expect(page.get_by_label("Preferred domains")).to_have_value("reuters.com\nft.com")
    expect(page.get_by_label("Barred domains")).to_have_value("press.example\nads.ft.com")
    window.open("/agents")
    row = page.get_by_role("row", name="nickel mines")
    # Without a reload: events update the row.
    expect(row.get_by_role("img", name="completed")).to_be_visible(timeout=60_000)
