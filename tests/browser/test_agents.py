"""Signing in, and the overview of all agents."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import AGENT, SharedInstallation, WindowFactory
from tests.support.browser.browser_window import BrowserWindow

pytestmark = pytest.mark.browser


def test_a_signed_out_user_is_redirected_to_sign_in(
    open_window: WindowFactory, installation: SharedInstallation
) -> None:
    stranger = open_window()
    page = stranger.open("/agents")
    expect(page).to_have_url(f"{installation.base}/sign-in")
    stranger.screenshot("sign-in")
    page.get_by_label("Name or mail address").fill("nobody")
    page.get_by_role("button", name="Send me a link").click()
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
    expect(person.page.get_by_role("heading", name="used up")).to_be_visible()
    page = person.open("/agents")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{installation.base}/sign-in")
    person.open("/agents")
    expect(page).to_have_url(f"{installation.base}/sign-in")


def test_cards_show_the_status_of_each_agent(window: BrowserWindow) -> None:
    page = window.open("/agents")
    card = page.locator(".card", has_text=AGENT)
    expect(card.get_by_text("watching")).to_be_visible()
    expect(card).to_contain_text("completed")
    window.screenshot("agents")


def test_an_agent_is_created_from_a_sentence_and_shown_being_configured(
    window: BrowserWindow,
) -> None:
    page = window.open("/agents")
    page.get_by_role("link", name="New agent").click()
    window.screenshot("agents-new")
    page.get_by_label("What should it watch").fill("Watch nickel mines and who owns them")
    page.get_by_label("Preferred domains").fill("Reuters.com, ft.com")
    page.get_by_label("Barred domains").fill("press.example\nads.ft.com")
    page.get_by_role("button", name="Make it").click()
    page.wait_for_url("**/agents/*-*")
    page.goto(f"{page.url}/settings")
    expect(page.get_by_label("Preferred domains")).to_have_value("reuters.com\nft.com")
    expect(page.get_by_label("Barred domains")).to_have_value("press.example\nads.ft.com")
    window.open("/agents")
    card = page.locator(".card", has_text="nickel mines")
    # Without a reload: events update the card.
    expect(card.locator(".pill", has_text="completed")).to_be_visible(timeout=60_000)


def test_an_unknown_url_shows_an_error_page(window: BrowserWindow) -> None:
    window.expected.append("404")
    page = window.open("/agents/there-is-none")
    expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
    window.screenshot("refused")
