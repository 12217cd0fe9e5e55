"""Stored pages in the web UI: sites, search, highlighted quotes, retraction and restoration."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SharedInstallation
from tests.support.browser import graphs
from tests.support.browser.browser_window import BrowserWindow, confirm_dialog
from tests.support.browser.graphs import OLD_QUOTE, GraphIds

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def graph(installation: SharedInstallation) -> GraphIds:
    return graphs.create_graph(installation, "Source watch")


def test_pages_are_grouped_by_site_and_found_by_a_part_of_their_url(
    window: BrowserWindow, graph: GraphIds
) -> None:
    page = window.open(f"/agents/{graph.agent_id}/sources")
    expect(page.locator(".page")).to_have_count(3)
    site = page.locator(".site", has_text="press.example")
    expect(site.locator("summary")).to_contain_text("2 pages")
    expect(site.locator("summary")).to_contain_text("6 quotes")
    expect(site.get_by_role("img", name="86% of all quotes")).to_be_visible()
    window.screenshot("sources")
    search = page.get_by_label("Search addresses and titles")
    search.fill("example/2024")
    search.press("Enter")
    expect(page.locator(".page")).to_have_count(1)
    expect(page.locator(".page")).to_contain_text("What was bought in 2024")
    search.fill("100%_")
    search.press("Enter")
    expect(page.get_by_role("heading", name="No match")).to_be_visible()
    page.get_by_role("link", name="Show all pages").click()
    page.get_by_label("Filter pages").select_option("Not quoted")
    expect(page.get_by_role("heading", name="No match")).to_be_visible()


def test_versions_of_a_page_are_folded_and_linked(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    graph = graphs.create_graph(installation, "Version watch")
    for year in (2025, 2026):
        graphs.add_version(installation, graph, f"{graphs.PAGES[0]['content']} Updated in {year}.")
    page = window.open(f"/agents/{graph.agent_id}/sources")
    expect(page.locator(".page")).to_have_count(3)
    listed = page.locator(".page", has_text="What was bought in 2024")
    expect(listed).to_contain_text("3 versions")
    window.screenshot("sources-versions")
    listed.get_by_role("link", name="What was bought in 2024").click()
    expect(page.locator(".page-text")).to_contain_text("Updated in 2026")
    window.screenshot("source-versions")


def test_quotes_are_highlighted_in_the_page_text(window: BrowserWindow, graph: GraphIds) -> None:
    page = window.open(f"/agents/{graph.agent_id}/sources/{graph.old_source}")
    marks = page.locator(".page-text mark")
    # One of the four quotes overlaps the end of the others: text of those, of all, and of that one.
    assert marks.all_inner_texts() == [
        "Halden Cells bought 40 ",
        "tonnes – ½ of all lithium.",
        " Nothing",
    ]
    assert "".join(marks.all_inner_texts()).startswith(OLD_QUOTE)
    evidence = page.locator(".rests li")
    expect(evidence).to_have_count(4)
    evidence.filter(has_text="Lithium").filter(has_not_text="buys").get_by_role(
        "link", name="in the text"
    ).click()
    expect(page.locator(".page-text .highlight-number:target")).to_be_in_viewport()
    window.screenshot("source")


def test_a_page_is_retracted_and_restored(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    new_graph = graphs.create_graph(installation, "Disbelief watch")
    page = window.open(f"/agents/{new_graph.agent_id}/sources/{new_graph.old_source}")
    page.get_by_text("Retract this page").click()
    # What it would do is said before.
    expect(page.locator(".foreseen")).to_contain_text(
        "If you retract it: 3 nodes and edges would lose all support; 1 analysis would be in doubt."
    )
    window.screenshot("source-retracting")
    page.get_by_label("Reason").fill("It was made up")
    page.get_by_role("button", name="Retract").click()
    belief = page.locator("#belief")
    expect(belief).to_contain_text("Reason: It was made up")
    # Without a reload: a background loop propagates the retraction.
    expect(belief).to_contain_text(
        "The graph is updated: 1 analysis and 0 pieces of advice are in doubt"
    )
    window.screenshot("source-retracted")
    window.open(f"/agents/{new_graph.agent_id}/edges/{new_graph.edge}")
    expect(page.get_by_text("Unsupported")).to_be_visible()
    window.screenshot("edge-unsupported")
    window.open(f"/agents/{new_graph.agent_id}/sources?state=retracted")
    expect(page.locator(".page")).to_have_count(1)
    expect(page.locator(".page")).to_contain_text("retracted")
    page.locator(".page-link").click()
    page.get_by_role("button", name="Restore").click()
    confirm_dialog(page)
    expect(page.get_by_text("Retract this page")).to_be_visible()
    window.open(f"/agents/{new_graph.agent_id}/edges/{new_graph.edge}")
    expect(page.get_by_text("Unsupported")).to_be_hidden()


def test_the_site_of_a_page_is_barred_and_restored(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    new_graph = graphs.create_graph(installation, "Bought watch")
    page = window.open(f"/agents/{new_graph.agent_id}/sources/{new_graph.old_source}")
    page.get_by_text("Retract this page").click()
    # What it touches is said before.
    expect(page.locator(".foreseen")).to_contain_text("If you also bar press.example, with 2 pages")
    page.get_by_label("Bar press.example").check()
    page.get_by_label("Reason").fill("It was bought")
    window.screenshot("source-barring")
    page.get_by_role("button", name="Retract").click()
    belief = page.locator("#belief")
    expect(belief).to_contain_text("press.example is barred with all of its pages")
    window.open(f"/agents/{new_graph.agent_id}/sources?state=retracted")
    expect(page.locator(".page")).to_have_count(2)
    page.locator(".page-link").first.click()
    page.get_by_role("button", name="Restore").click()
    confirm_dialog(page)
    expect(page.get_by_text("Retract this page")).to_be_visible()
    window.open(f"/agents/{new_graph.agent_id}/sources?state=retracted")
    expect(page.locator(".page")).to_have_count(0)
