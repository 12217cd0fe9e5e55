"""The knowledge graph in the web UI: the explorer, and the page of each node, edge and type."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SharedInstallation
from tests.support.browser import graphs
from tests.support.browser.browser_window import BrowserWindow
from tests.support.browser.graphs import HOSTILE, GraphIds

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NODE_COUNT, EDGE_COUNT = 2_000, 4_000
SETTLE_TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def graph(installation: SharedInstallation) -> GraphIds:
    return graphs.create_graph(installation, "Graph watch")


@pytest.fixture(scope="module")
def large_graph_agent_id(installation: SharedInstallation) -> UUID:
    return graphs.create_large_graph(
        installation, "Crowd watch", node_count=NODE_COUNT, edge_count=EDGE_COUNT
    )


def open_explorer(window: BrowserWindow, agent_id: UUID, query: str = "") -> Page:
    """Open the explorer and wait until its layout is settled."""
    page = window.open(f"/agents/{agent_id}/graph{query}")
    wait_until_settled(page)
    return page


def wait_until_settled(page: Page) -> None:
    page.locator('#stage[data-state="settled"]').wait_for(timeout=SETTLE_TIMEOUT_MS)


def list_rows(page: Page) -> list[str]:
    if not page.locator("#listed").evaluate("(details) => details.open"):
        page.locator("#listed summary").click()
    page.locator("#listed-rows tr").first.wait_for()
    return page.locator("#listed-rows button").all_inner_texts()


def test_a_node_is_selected_and_leads_to_its_neighbour(
    window: BrowserWindow, graph: GraphIds
) -> None:
    page = open_explorer(window, graph.agent_id)
    assert "Halden Cells" in list_rows(page)
    page.locator("#listed-rows").get_by_role("button", name="Halden Cells", exact=True).click()
    side = page.locator("#side")
    expect(side.get_by_role("heading", name="Halden Cells")).to_be_visible()
    expect(page).to_have_url(re.compile(f"node={graph.maker}"))
    window.screenshot("graph")
    side.locator(".edges").get_by_role("link", name="Lithium").click()
    expect(side.get_by_role("heading", name="Lithium")).to_be_visible()
    page.reload()
    wait_until_settled(page)
    expect(side.get_by_role("heading", name="Lithium")).to_be_visible()


def test_the_graph_is_navigated_with_the_keyboard(window: BrowserWindow, graph: GraphIds) -> None:
    page = open_explorer(window, graph.agent_id, f"?node={graph.duplicate}")
    assert list_rows(page) == ["Halden Cell"]
    page = open_explorer(window, graph.agent_id, "?search=Lithium")
    stage, side = page.locator("#stage"), page.locator("#side")
    stage.focus()
    page.keyboard.press("ArrowRight")
    expect(side.get_by_role("heading", name="Lithium")).to_be_visible()
    before = len(list_rows(page))
    stage.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#listed-rows button")).not_to_have_count(before)
    expect(page.locator("#listed-rows")).to_contain_text("Halden Cells")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Unfold")).to_be_disabled()
    for key in ("ArrowDown", "Delete"):
        page.keyboard.press(key)
    expect(page.get_by_role("button", name="Show hidden")).to_be_visible()
    page.get_by_role("button", name="Show hidden").click()
    expect(page.get_by_role("button", name="Show hidden")).to_be_hidden()


def test_a_click_selects_and_a_double_click_expands(window: BrowserWindow, graph: GraphIds) -> None:
    page = open_explorer(window, graph.agent_id, "?search=Lithium&limit=1")
    # A single node is in the middle of the stage.
    assert list_rows(page) == ["Lithium"]
    page.locator("#listed-rows").get_by_role("button", name="Lithium", exact=True).click()
    expect(page.locator("#side").get_by_role("heading", name="Lithium")).to_be_visible()
    page.locator('#stage[data-moving="no"]').wait_for()
    page.locator("#stage").focus()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Unfold")).to_be_disabled()
    box = page.locator("#stage").bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(*middle)
    expect(page.get_by_role("button", name="Unfold")).to_be_enabled()
    page.mouse.dblclick(*middle)
    expect(page.locator("#listed-rows")).to_contain_text("Halden Cells")


def test_type_and_age_filters_are_kept_in_the_url(
    window: BrowserWindow, large_graph_agent_id: UUID
) -> None:
    page = open_explorer(window, large_graph_agent_id, "?limit=300")
    count = page.locator("#listed-count")
    expect(count).to_contain_text("300 nodes")
    page.get_by_label("Person").uncheck()
    expect(count).to_contain_text("200 nodes")
    page.get_by_label("a day", exact=True).check()
    expect(count).to_contain_text("16 nodes")
    page.get_by_label("freshness").check()
    expect(page.locator("#ages")).to_be_visible()
    page.reload()
    wait_until_settled(page)
    expect(page.get_by_label("Person")).not_to_be_checked()
    expect(page.get_by_label("freshness")).to_be_checked()
    expect(count).to_contain_text("16 nodes")


def test_two_thousand_nodes_are_drawn(window: BrowserWindow, large_graph_agent_id: UUID) -> None:
    page = open_explorer(window, large_graph_agent_id, "?limit=2000")
    expect(page.locator("#listed-count")).to_contain_text("2,000 nodes")
    assert page.locator("#stage").get_attribute("data-nodes") == str(NODE_COUNT)
    assert len(list_rows(page)) == 100
    page.get_by_role("button", name="Show more rows").click()
    expect(page.locator("#listed-rows tr")).to_have_count(200)
    page.locator("#listed summary").click()
    window.screenshot("graph-crowd")


def test_a_graph_without_webgl_is_a_list(window: BrowserWindow, graph: GraphIds) -> None:
    # The library logs an error when it is loaded.
    window.expected.append("getParameter")
    window.page.add_init_script(
        "const get = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        " return kind.startsWith('webgl') ? null : get.call(this, kind, ...rest); }"
    )
    page = window.open(f"/agents/{graph.agent_id}/graph")
    expect(page.locator("#stage-status")).to_contain_text("no WebGL")
    expect(page.locator("#listed-rows").get_by_text("Lithium", exact=True)).to_be_visible()


def test_a_search_leads_into_the_graph(window: BrowserWindow, graph: GraphIds) -> None:
    page = window.open(f"/agents/{graph.agent_id}/graph")
    page.get_by_label("Search names and properties").fill("halden")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("heading", name="Found")).to_be_visible()
    page.locator("#side").get_by_role("link", name="Halden Cells", exact=True).click()
    expect(page.locator("#side").get_by_text("What is known of it")).to_be_visible()
    page = window.open(f"/agents/{graph.agent_id}/graph?search=xylophone")
    expect(page.get_by_text("Nothing known is called so")).to_be_visible()


def test_a_node_shows_its_evidence(window: BrowserWindow, graph: GraphIds) -> None:
    page = window.open(f"/agents/{graph.agent_id}/nodes/{graph.maker}")
    article = page.locator("article.thing")
    expect(article.locator(".claims .value", has_text="90")).to_be_visible()
    expect(article.get_by_text("Halden Cells bought 90 tonnes", exact=True)).to_be_visible()
    article.get_by_text("1 superseded claim").click()
    expect(article.locator(".superseded")).to_contain_text("40")
    expect(article.get_by_role("link", name="Lithium", exact=True)).to_be_visible()
    expect(article.locator(f'a[href$="/conclusions/{graph.analysis}"]')).to_be_visible()
    window.screenshot("node")
    article.get_by_role("link", name="in What was bought in 2024").first.click()
    expect(page.get_by_role("heading", name="As it was read")).to_be_visible()


def test_an_edge_shows_its_evidence(window: BrowserWindow, graph: GraphIds) -> None:
    page = window.open(f"/agents/{graph.agent_id}/edges/{graph.edge}")
    expect(page.get_by_text(graphs.OLD_QUOTE)).to_be_visible()
    expect(page.locator(f'a[href$="/conclusions/{graph.analysis}"]')).to_be_visible()
    window.screenshot("edge")


def test_hostile_names_and_quotes_have_no_effect(window: BrowserWindow, graph: GraphIds) -> None:
    page = open_explorer(window, graph.agent_id, f"?node={graph.hostile}")
    heading = page.locator("#side").get_by_role("heading", level=2)
    expect(heading).to_contain_text("<img src=x onerror=")
    assert any(HOSTILE in row for row in list_rows(page))
    for path in (
        f"nodes/{graph.hostile}",
        f"sources/{graph.hostile_source}",
        "sources",
        "duplicates",
    ):
        page = window.open(f"/agents/{graph.agent_id}/{path}")
        assert page.locator('main img[src="x"], main script, main svg').count() == 0
        assert page.locator('a[href^="javascript"]').count() == 0
        assert page.title() != "1"
    page = window.open(f"/agents/{graph.agent_id}/sources/{graph.hostile_source}")
    expect(page.locator(".page-text mark")).to_have_text("</mark><script>document.title=1</script>")


def test_types_show_their_schema_and_purpose(window: BrowserWindow, graph: GraphIds) -> None:
    page = window.open(f"/agents/{graph.agent_id}/types")
    maker_type = page.locator("#type-Maker")
    expect(maker_type.get_by_role("row", name="tonnes")).to_contain_text("at least 0")
    expect(maker_type).to_contain_text("None that there was is about who buys.")
    expect(maker_type.get_by_role("link", name="4 nodes")).to_be_visible()
    window.screenshot("types")
    page.get_by_role("link", name="edge types").click()
    expect(page.locator("#type-buys")).to_contain_text("Maker")


def test_unknown_nodes_and_edges_are_not_found(window: BrowserWindow, graph: GraphIds) -> None:
    window.expected.append("404")
    unknown_id = "00000000-0000-4000-8000-000000000000"
    for path in (f"nodes/{unknown_id}", f"edges/{unknown_id}", f"graph/data?node={unknown_id}"):
        page = window.open(f"/agents/{graph.agent_id}/{path}")
        expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()


def test_duplicates_are_merged_and_the_merge_is_undone(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    new_graph = graphs.create_graph(installation, "Doubles watch")
    page = window.open(f"/agents/{new_graph.agent_id}/duplicates")
    window.screenshot("duplicates")
    pair = page.locator("form.double")
    pair.get_by_label("Halden Cells", exact=True).check()
    pair.get_by_label("Why they are one").fill("Another spelling")
    pair.get_by_role("button", name="Merge").click()
    expect(page.locator("tr", has_text="Another spelling")).to_contain_text("Halden Cell")
    expect(page.locator("form.double")).to_have_count(0)
    page = window.open(f"/agents/{new_graph.agent_id}/nodes/{new_graph.duplicate}")
    expect(page).to_have_url(re.compile(f"/nodes/{new_graph.maker}$"))
    expect(page.get_by_text("Also called Halden Cell")).to_be_visible()
    page = window.open(f"/agents/{new_graph.agent_id}/duplicates")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text(re.compile("undone (now|.* ago)"))).to_be_visible()
    expect(page.locator("form.double")).to_have_count(1)
