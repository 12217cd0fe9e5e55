"""Stored pages in the web UI: search, highlighted quotes, retraction and restoration."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SharedInstallation
from tests.support.browser import graphs
from tests.support.browser.browser_window import BrowserWindow
from tests.support.browser.graphs import OLD_QUOTE, GraphIds

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def graph(installation: SharedInstallation) -> GraphIds:
    return graphs.create_graph(installation, "Source watch")


def test_pages_are_found_by_a_part_of_their_url(window: BrowserWindow, graph: GraphIds) -> None:
    page = window.open(f"/agents/{graph.agent_id}/sources")
    expect(page.locator("tbody tr")).to_have_count(3)
    window.screenshot("sources")
    page.get_by_label("Search addresses and titles").fill("example/2024")
    page.get_by_role("button", name="Find").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("What was bought in 2024")
    page.get_by_label("Search addresses and titles").fill("100%_")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("heading", name="No such page")).to_be_visible()


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
    page.get_by_text("Do you not believe this page?").click()
    expect(page.get_by_text("quotes of 4 nodes and edges rest on it")).to_be_visible()
    page.get_by_label("Why not?").fill("It was made up")
    page.get_by_role("button", name="Retract it").click()
    belief = page.locator("#belief")
    expect(belief).to_contain_text("because: It was made up")
    # Without a reload: a background loop propagates the retraction.
    expect(belief).to_contain_text("has been gone through: 1 analysis")
    window.screenshot("source-retracted")
    window.open(f"/agents/{new_graph.agent_id}/edges/{new_graph.edge}")
    expect(page.get_by_text("Unsupported")).to_be_visible()
    window.screenshot("edge-unsupported")
    window.open(f"/agents/{new_graph.agent_id}/sources?state=retracted")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("tbody a").click()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Believe it again").click()
    expect(page.get_by_text("Do you not believe this page?")).to_be_visible()
    window.open(f"/agents/{new_graph.agent_id}/edges/{new_graph.edge}")
    expect(page.get_by_text("Unsupported")).to_be_hidden()
