"""Advice and analyses, expanded down to the sentences that support them."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SharedInstallation
from tests.support.browser import agent_data
from tests.support.browser.agent_data import AgentWithAdvice
from tests.support.browser.browser_window import BrowserWindow

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def agent(installation: SharedInstallation) -> AgentWithAdvice:
    url = installation.vigil.running.database_url
    return agent_data.run_in_thread(
        agent_data.create_agent(url, UUID(installation.agent_id), "Lithium desk")
    )


def test_advice_expands_down_to_the_sentence_in_its_page(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conclusions")
    expect(page.get_by_text("HOLD", exact=True)).to_be_visible()
    expect(page.get_by_label("Confidence")).to_have_attribute("value", "0.72")
    window.screenshot("advice-all")
    page.get_by_role("link", name=agent_data.ADVICE).click()
    expect(page.get_by_text("Each quote is in its page")).to_be_visible()
    expect(page.get_by_text("2 pages, 4 quotes, 5 nodes and 1 edge checked")).to_be_visible()
    chain = page.locator("#chain")
    expect(chain.locator("blockquote", has_text=agent_data.SENTENCE)).to_be_visible()
    source = chain.get_by_role("link", name=agent_data.PAGE)
    address = rf"/agents/{agent.agent_id}/sources/[0-9a-f-]+#quote-[0-9a-f-]+$"
    expect(source).to_have_attribute("href", re.compile(address))
    expect(chain.locator("a.leaving", has_text="press.example")).to_have_attribute(
        "rel", re.compile("noopener")
    )
    window.screenshot("advice")


def test_links_of_a_chain_collapse_and_show_their_hashes(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conclusions/{agent.advice_id}")
    quote = page.locator("#chain blockquote", has_text=agent_data.SENTENCE)
    expect(quote).to_be_visible()
    page.locator("#chain summary", has_text=agent_data.ANALYSIS).click()
    expect(quote).to_be_hidden()
    page.keyboard.press("Enter")
    expect(quote).to_be_visible()
    evidence = page.locator("#chain li[data-kind=evidence]", has_text=agent_data.SENTENCE)
    evidence.get_by_text("Hashes of the page").click()
    expect(evidence.get_by_text(re.compile("^[0-9a-f]{64}$")).last).to_be_visible()


def test_a_conclusion_is_verified_again_by_a_button(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conclusions/{agent.analysis_id}")
    expect(page.locator("#verify-command")).to_have_text(f"vigil verify {agent.analysis_id}")
    with page.expect_response(lambda response: "/chain" in response.url) as response_info:
        page.get_by_text("Verify again").click()
    assert response_info.value.ok
    expect(page.get_by_text("Each quote is in its page")).to_be_visible()


def test_a_conclusion_from_a_retracted_page_is_shown_in_doubt(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conclusions?kind=analyses")
    row = page.locator(".conclusion", has_text=agent_data.DOUBTED)
    expect(row.get_by_text("in doubt")).to_be_visible()
    window.screenshot("analyses")
    row.get_by_role("link").click()
    expect(page.locator("#doubts")).to_contain_text("nobody confirms it")
    expect(page.get_by_text("1 break: this cannot be proved")).to_be_visible()
    expect(page.locator("#chain .fault").get_by_role("link", name="Kestrel Cells")).to_be_visible()
    expect(page.locator("#chain li[data-kind=evidence] .pill")).to_have_text("retracted")
    window.screenshot("analysis-doubted")


def test_hostile_text_in_a_conclusion_has_no_effect(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conclusions/{agent.hostile_id}")
    expect(page.get_by_text("Each quote is in its page")).to_be_visible()
    text = page.locator(".rich")
    agent_data.check_no_injection(page)
    expect(text.get_by_role("link", name="Halden Energy")).to_have_attribute(
        "href", f"/agents/{agent.agent_id}/nodes/{agent.halden_id}"
    )
    window.screenshot("analysis-hostile")
