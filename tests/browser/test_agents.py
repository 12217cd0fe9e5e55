"""Coming in, and all agents at a glance."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import AGENT, Known, Opener
from tests.support.browser.watched import Watched

pytestmark = pytest.mark.browser


def test_who_is_not_signed_in_is_led_to_the_sign_in(another: Opener, known: Known) -> None:
    stranger = another()
    page = stranger.open("/agents")
    expect(page).to_have_url(f"{known.base}/sign-in")
    stranger.shoot("sign-in")
    page.get_by_label("Name or mail address").fill("nobody")
    page.get_by_role("button", name="Send me a link").click()
    expect(page.get_by_role("status")).to_contain_text("on its way")


def test_a_link_signs_in_once_and_the_way_out_is_one_button(another: Opener, known: Known) -> None:
    person, link = another(), known.link()
    person.page.goto(link)
    person.page.get_by_role("button", name="Sign in").click()
    expect(person.page.get_by_role("heading", name="Agents")).to_be_visible()
    person.expected.append("410")
    person.page.goto(link)
    person.page.get_by_role("button", name="Sign in").click()
    expect(person.page.get_by_role("heading", name="used up")).to_be_visible()
    page = person.open("/agents")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{known.base}/sign-in")
    person.open("/agents")
    expect(page).to_have_url(f"{known.base}/sign-in")


def test_cards_say_how_each_agent_is_doing(window: Watched) -> None:
    page = window.open("/agents")
    card = page.locator(".card", has_text=AGENT)
    expect(card.get_by_text("watching")).to_be_visible()
    expect(card).to_contain_text("completed")
    window.shoot("agents")


def test_an_agent_is_made_of_a_sentence_and_seen_being_configured(window: Watched) -> None:
    page = window.open("/agents")
    page.get_by_role("link", name="New agent").click()
    window.shoot("agents-new")
    page.get_by_label("What should it watch").fill("Watch nickel mines and who owns them")
    page.get_by_role("button", name="Make it").click()
    page.wait_for_url("**/agents/*-*")
    window.open("/agents")
    card = page.locator(".card", has_text="nickel mines")
    # Without a reload: the events bring the card up to date.
    expect(card.locator(".pill", has_text="completed")).to_be_visible(timeout=60_000)


def test_what_is_not_there_is_told_on_a_page(window: Watched) -> None:
    window.expected.append("404")
    page = window.open("/agents/there-is-none")
    expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
    window.shoot("refused")
