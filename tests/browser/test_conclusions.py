"""Advice and analyses, unfolded down to the sentences that they rest on."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Known
from tests.support.browser import desk as desks
from tests.support.browser.desk import Desk
from tests.support.browser.watched import Watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def desk(known: Known) -> Desk:
    url = known.vigil.running.database_url
    return desks.made(desks.furnish(url, UUID(known.agent_id), "Lithium desk"))


def test_advice_is_unfolded_down_to_the_sentence_in_its_page(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conclusions")
    expect(page.get_by_text("HOLD", exact=True)).to_be_visible()
    expect(page.get_by_label("Confidence")).to_have_attribute("value", "0.72")
    window.shoot("advice-all")
    page.get_by_role("link", name=desks.ADVICE).click()
    expect(page.get_by_text("Everything holds")).to_be_visible()
    expect(page.get_by_text("2 pages, 4 quotes, 5 nodes and 1 edge checked")).to_be_visible()
    chain = page.locator("#chain")
    expect(chain.locator("blockquote", has_text=desks.SENTENCE)).to_be_visible()
    source = chain.get_by_role("link", name=desks.PAGE)
    address = rf"/agents/{desk.agent_id}/sources/[0-9a-f-]+#quote-[0-9a-f-]+$"
    expect(source).to_have_attribute("href", re.compile(address))
    expect(chain.locator("a.leaving", has_text="press.example")).to_have_attribute(
        "rel", re.compile("noopener")
    )
    window.shoot("advice")


def test_links_of_a_chain_fold_and_show_their_hashes(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conclusions/{desk.advice_id}")
    quote = page.locator("#chain blockquote", has_text=desks.SENTENCE)
    expect(quote).to_be_visible()
    page.locator("#chain summary", has_text=desks.ANALYSIS).click()
    expect(quote).to_be_hidden()
    page.keyboard.press("Enter")
    expect(quote).to_be_visible()
    evidence = page.locator("#chain li[data-kind=evidence]", has_text=desks.SENTENCE)
    evidence.get_by_text("Hashes of the page").click()
    expect(evidence.get_by_text(re.compile("^[0-9a-f]{64}$")).last).to_be_visible()


def test_a_conclusion_is_verified_again_by_a_button(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conclusions/{desk.analysis_id}")
    expect(page.locator("#verify-command")).to_have_text(f"vigil verify {desk.analysis_id}")
    with page.expect_response(lambda answer: "/chain" in answer.url) as answered:
        page.get_by_text("Verify again").click()
    assert answered.value.ok
    expect(page.get_by_text("Everything holds")).to_be_visible()


def test_what_rests_on_a_retracted_page_is_told_to_be_in_doubt(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conclusions?kind=analyses")
    row = page.locator(".conclusion", has_text=desks.DOUBTED)
    expect(row.get_by_text("in doubt")).to_be_visible()
    window.shoot("analyses")
    row.get_by_role("link").click()
    expect(page.locator("#doubts")).to_contain_text("nobody confirms it")
    expect(page.get_by_text("1 break: this cannot be proved")).to_be_visible()
    expect(page.locator("#chain .fault").get_by_role("link", name="Kestrel Cells")).to_be_visible()
    expect(page.locator("#chain li[data-kind=evidence] .pill")).to_have_text("retracted")
    window.shoot("analysis-doubted")


def test_what_pages_had_a_model_write_does_nothing(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conclusions/{desk.hostile_id}")
    expect(page.get_by_text("Everything holds")).to_be_visible()
    text = page.locator(".rich")
    desks.is_harmless(page)
    expect(text.get_by_role("link", name="Halden Energy")).to_have_attribute(
        "href", f"/agents/{desk.agent_id}/nodes/{desk.halden_id}"
    )
    window.shoot("analysis-hostile")
