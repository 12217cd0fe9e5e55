"""Advice and analyses: lists, doubts first, exact seals, and chains down to the sentences that support them."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SharedInstallation
from tests.support.browser import agent_data
from tests.support.browser.agent_data import AgentWithAdvice
from tests.support.browser.browser_window import NARROW, BrowserWindow

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def agent(installation: SharedInstallation) -> AgentWithAdvice:
    url = installation.vigil.running.database_url
    return agent_data.run_in_thread(
        agent_data.create_agent(url, UUID(installation.agent_id), "Lithium desk")
    )


def check_seal(page: Page, *lines: str) -> None:
    """Check what the seal says, and that it claims nothing more."""
    expect(page.locator("#seal .seal-counts li")).to_have_text(list(lines))
    expect(page.locator("#seal")).not_to_contain_text(re.compile("everything|proved to be", re.I))


def test_advice_expands_down_to_the_sentence_in_its_page(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conclusions")
    row = page.locator(".conclusion-row", has_text=agent_data.ADVICE)
    expect(row.get_by_text("HOLD", exact=True)).to_be_visible()
    expect(row.get_by_role("img", name="Confidence 72%")).to_be_visible()
    expect(row).to_contain_text("2 pages, 2 sites 1 retracted")
    window.screenshot("advice-all")
    page.get_by_role("link", name=agent_data.ADVICE).click()
    check_seal(
        page,
        "In doubt: 2 conclusions of this chain",
        "1 of 3 pages retracted",
        "4 sentences found, 1 of them on a retracted page",
        "2 figures and names match",
        "1 figure or name of conclusions matches",
        "Not read by a model",
        "Not checked: 2 other values and relations, 4 claims not read by a model, 3 conclusions not read by a model",
    )
    expect(
        page.get_by_text("3 pages, 7 nodes and 1 edge compared with their hashes")
    ).to_be_visible()
    chain = page.locator("#chain")
    # It is in the proof of the advice and of the analysis.
    quote = chain.locator("blockquote", has_text=agent_data.SENTENCE).first
    expect(quote.locator("mark")).to_have_text(agent_data.SENTENCE)
    # The sentences before and after it.
    expect(quote.locator(".around")).to_have_text(
        ["Haldensund, 12 January.", "The company says that its new line begins in May."]
    )
    source = chain.get_by_role("link", name=agent_data.PAGE).first
    address = rf"/agents/{agent.agent_id}/sources/[0-9a-f-]+\?quote=([0-9a-f-]+)#at-\1$"
    expect(source).to_have_attribute("href", re.compile(address))
    expect(chain.locator("a.leaving", has_text="press.example").first).to_have_attribute(
        "rel", re.compile("noopener")
    )
    window.screenshot("advice")
    source.click()
    marked = page.locator(".page-text mark[data-chosen]")
    expect(marked).to_have_text(agent_data.SENTENCE)
    expect(marked).to_be_in_viewport()
    expect(page.locator(".rests li[data-chosen]")).to_contain_text("Halden Energy")


def test_conclusions_are_filtered(window: BrowserWindow, agent: AgentWithAdvice) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conclusions?kind=analyses")
    rows = page.locator(".conclusion-row")
    expect(rows).to_have_count(3)
    page.get_by_label("Doubt").select_option("In doubt")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(agent_data.DOUBTED)
    page.get_by_label("Type").select_option("pattern")
    expect(page.get_by_role("heading", name="No match")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    page.get_by_label("Type").select_option("pattern")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(agent_data.ANALYSIS)
    page.get_by_label("Horizon").select_option("Expired")
    expect(rows).to_have_count(0)


def test_links_of_a_chain_collapse_and_show_their_hashes(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conclusions/{agent.advice_id}")
    analysis = page.locator("#chain li[data-kind=analysis]", has_text=agent_data.ANALYSIS)
    quote = analysis.locator("blockquote", has_text=agent_data.SENTENCE)
    expect(quote).to_be_visible()
    page.locator("#chain summary", has_text=agent_data.ANALYSIS).click()
    expect(quote).to_be_hidden()
    page.keyboard.press("Enter")
    expect(quote).to_be_visible()
    evidence = analysis.locator("li[data-kind=evidence]", has_text=agent_data.SENTENCE)
    hashes = evidence.get_by_text(re.compile("^[0-9a-f]{64}$"))
    expect(hashes.last).to_be_hidden()
    evidence.get_by_text("Hashes").click()
    expect(evidence.get_by_text("Seal of the page")).to_be_visible()
    expect(hashes).to_have_count(4)
    expect(hashes.last).to_be_visible()


def test_a_conclusion_is_verified_again_by_a_button(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conclusions/{agent.analysis_id}")
    page.get_by_text("Check it yourself").click()
    expect(page.locator("#verify-command")).to_have_text(f"vigil verify {agent.analysis_id}")
    with page.expect_response(lambda response: "/chain" in response.url) as response_info:
        page.get_by_role("link", name="Check again").click()
    assert response_info.value.ok
    expect(page.locator("#seal")).to_contain_text("3 sentences found")


def test_a_conclusion_from_a_retracted_page_is_shown_in_doubt(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conclusions?kind=analyses")
    row = page.locator(".conclusion-row", has_text=agent_data.DOUBTED)
    expect(row.get_by_text("in doubt")).to_be_visible()
    expect(row).to_contain_text("0 pages 1 retracted")
    expect(page.get_by_role("columnheader")).to_have_text(
        ["Conclusion", "Type", "Confidence", "Based on", "Age"]
    )
    width = "(box) => [box.scrollWidth, box.clientWidth]"
    needed, given = page.locator(".conclusion-list .grid").evaluate(width)
    assert needed <= given, "the table is wider than its box"
    window.screenshot("analyses")
    row.get_by_role("link").click()
    doubts = page.locator("#doubts")
    expect(doubts).to_contain_text("The page at rumours.example was retracted.")
    expect(doubts).to_contain_text("nobody confirms it")
    expect(doubts.get_by_role("link", name="Kestrel Cells")).to_be_visible()
    # Doubts stand before what is concluded.
    article = page.locator("article")
    assert doubts.bounding_box()["y"] < article.bounding_box()["y"]  # type: ignore[index]  # both are visible
    # A doubt is no break.
    expect(page.locator("#seal h2")).to_have_text("Checked, but in doubt")
    lines = page.locator("#seal .seal-counts li")
    expect(lines.nth(0)).to_have_text("In doubt: 1 conclusion of this chain")
    expect(lines.nth(1)).to_have_text("1 of 1 page retracted")
    expect(lines.nth(2)).to_have_text("1 sentence found, on a retracted page")
    # Nothing that rests on the page looks proved.
    expect(page.locator("#seal h2 .icon")).to_have_attribute("data-tone", "warn")
    expect(lines.nth(2).locator(".icon")).to_have_attribute("data-tone", "warn")
    expect(page.locator(".conclusion-facts .meter")).to_have_attribute("data-tone", "warn")
    expect(page.locator("#chain .sign")).to_have_text(["in doubt"])
    expect(page.locator("#chain .fault")).to_have_count(0)
    expect(page.locator("#chain li[data-kind=evidence] .quoted .pill")).to_have_text("retracted")
    window.screenshot("analysis-doubted")


def test_on_a_phone_one_switches_between_advice_and_analyses(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    window.page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
    page = window.open(f"/agents/{agent.agent_id}/conclusions?kind=analyses")
    switch = page.get_by_role("navigation", name="Kind of conclusion")
    for name in ("Advice", "Analyses"):
        link = switch.get_by_role("link", name=name)
        expect(link).to_be_in_viewport(ratio=1)
        link.click()
        expect(link).to_have_attribute("aria-current", "true")
    overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert overflow <= 0


def test_hostile_text_in_a_conclusion_has_no_effect(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conclusions/{agent.hostile_id}")
    expect(page.locator("#seal")).to_contain_text("found")
    text = page.locator(".rich")
    agent_data.check_no_injection(page)
    address = f"/agents/{agent.agent_id}/nodes/{agent.halden_id}"
    assert {link.get_attribute("href") for link in text.get_by_role("link").all()} == {address}
    window.screenshot("analysis-hostile")
