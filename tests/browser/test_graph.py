"""The knowledge graph in the web UI: the explorer, and the page of each node, edge and type."""

import json
import re
from uuid import UUID

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import SharedInstallation
from tests.support.browser import graphs
from tests.support.browser.browser_window import NARROW, BrowserWindow, confirm_dialog
from tests.support.browser.graphs import HOSTILE_SHOWN, GraphIds

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NODE_COUNT, EDGE_COUNT = 2_000, 4_000
SETTLE_TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def graph(installation: SharedInstallation) -> GraphIds:
    return graphs.create_graph(installation, "Graph watch", has_second_site=True)


@pytest.fixture(scope="module")
def large_graph_agent_id(installation: SharedInstallation) -> UUID:
    return graphs.create_large_graph(
        installation, "Crowd watch", node_count=NODE_COUNT, edge_count=EDGE_COUNT
    )


def open_explorer(window: BrowserWindow, agent_id: UUID, query: str = "") -> Page:
    """Open the explorer and wait until its layout is settled."""
    # Without a graphics card the browser logs each slow read of the canvas.
    window.expected.append("GPU stall")
    page = window.open(f"/agents/{agent_id}/graph{query}")
    wait_until_settled(page)
    return page


def wait_until_settled(page: Page) -> None:
    page.locator('#stage[data-state="settled"]').wait_for(timeout=SETTLE_TIMEOUT_MS)


def wait_until_still(page: Page) -> None:
    page.locator('#stage[data-moving="no"]').wait_for()


def open_table(page: Page) -> None:
    if not page.locator("#listed").evaluate("(details) => details.open"):
        page.locator("#listed summary").click()
    page.locator("#listed-rows tr").first.wait_for()


def list_rows(page: Page) -> list[str]:
    open_table(page)
    return page.locator("#listed-rows button").all_inner_texts()


def choose(page: Page, name: str) -> None:
    """Choose a node in the table, and wait for its details."""
    open_table(page)
    page.locator("#listed-rows").get_by_role("button", name=name, exact=True).click()
    expect(side_heading(page, name)).to_be_visible()


def side_heading(page: Page, name: str) -> Locator:
    return page.locator("#side").get_by_role("heading", name=name, exact=True)


def move_slider(page: Page, step: int) -> None:
    """Set the time slider to a step of 500, as a person who drags it does."""
    page.locator("#timeline-slider").evaluate(
        "(slider, step) => { slider.value = step; slider.dispatchEvent(new Event('input')); }", step
    )


def test_a_node_is_selected_and_leads_to_its_neighbour(
    window: BrowserWindow, graph: GraphIds
) -> None:
    page = open_explorer(window, graph.agent_id)
    assert "Halden Cells" in list_rows(page)
    choose(page, "Halden Cells")
    side = page.locator("#side")
    expect(page).to_have_url(re.compile(f"node={graph.maker}"))
    wait_until_still(page)
    window.screenshot("graph")
    side.locator(".edges").get_by_role("link", name="Lithium", exact=True).click()
    expect(side_heading(page, "Lithium")).to_be_visible()
    page.reload()
    wait_until_settled(page)
    expect(side_heading(page, "Lithium")).to_be_visible()
    expect(page).not_to_have_url(re.compile(str(graph.maker)))


def test_an_edge_is_selected_in_the_table_and_kept_in_the_url(
    window: BrowserWindow, graph: GraphIds
) -> None:
    page = open_explorer(window, graph.agent_id)
    open_table(page)
    page.locator(".listed-kind").get_by_text("Edges").click()
    row = page.locator("#listed-edges tr").filter(has_text="Lithium")
    expect(row).to_contain_text("Halden Cells")
    expect(row.locator("td").last).to_have_text("2")
    row.get_by_role("button", name="buys").click()
    side = page.locator("#side")
    expect(side.get_by_text(graphs.OLD_QUOTE)).to_be_visible()
    expect(page).to_have_url(re.compile(f"edge={graph.edge}"))
    page.reload()
    wait_until_settled(page)
    expect(side.get_by_text(graphs.OLD_QUOTE)).to_be_visible()
    open_table(page)
    page.locator(".listed-kind").get_by_text("Edges").click()
    expect(page.locator('#listed-edges [aria-current="true"]')).to_have_text("buys")


def test_the_graph_is_navigated_with_the_keyboard(window: BrowserWindow, graph: GraphIds) -> None:
    page = open_explorer(window, graph.agent_id)
    stage = page.locator("#stage")
    stage.focus()
    page.keyboard.press("ArrowRight")
    expect(side_heading(page, "Halden Cells")).to_be_visible()
    wait_until_still(page)
    # Each of its two neighbours is in some direction.
    for key in ("ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator("#side h2")).not_to_have_text("Nothing selected")
    page.keyboard.press("Escape")
    expect(side_heading(page, "Nothing selected")).to_be_visible()
    expect(page.locator("#node-tools")).to_be_hidden()
    for key in ("ArrowDown", "Delete"):
        page.keyboard.press(key)
    expect(page.get_by_role("button", name="Show hidden")).to_be_visible()
    assert "Halden Cells" not in list_rows(page)
    page.get_by_role("button", name="Show hidden").click()
    expect(page.get_by_role("button", name="Show hidden")).to_be_hidden()
    stage.focus()
    page.keyboard.press("ArrowDown")
    expect(side_heading(page, "Halden Cells")).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/nodes/{graph.maker}")


def test_a_click_selects_and_a_double_click_loads_neighbours(
    window: BrowserWindow, graph: GraphIds
) -> None:
    page = open_explorer(window, graph.agent_id, "?begin=connected&limit=1")
    assert list_rows(page) == ["Halden Cells"]
    page.locator("#listed summary").click()
    # A node that is chosen with an arrow key comes to the middle of the stage.
    page.locator("#stage").focus()
    page.keyboard.press("ArrowRight")
    wait_until_still(page)
    page.keyboard.press("Escape")
    expect(page.locator("#node-tools")).to_be_hidden()
    box = page.locator("#stage").bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(*middle)
    expect(side_heading(page, "Halden Cells")).to_be_visible()
    expect(page.locator("#node-tools")).to_be_visible()
    page.mouse.dblclick(*middle)
    expect(page.locator("#listed-count")).to_contain_text("3 nodes, 2 edges")


def test_focus_shows_a_neighbourhood_only(window: BrowserWindow, graph: GraphIds) -> None:
    page = open_explorer(window, graph.agent_id)
    choose(page, "Lithium")
    page.locator("#stage").focus()
    page.keyboard.press("f")
    expect(page.locator("#listed-rows button")).to_have_count(2)
    expect(page).to_have_url(re.compile("focus=1"))
    wait_until_settled(page)
    wait_until_still(page)
    window.screenshot("graph-focus")
    page.get_by_role("button", name="Focus on 2 steps").click()
    expect(page.locator("#listed-rows button")).to_have_count(3)
    page.reload()
    wait_until_settled(page)
    assert len(list_rows(page)) == 3
    expect(page.get_by_role("button", name="Focus on 2 steps")).to_have_attribute(
        "aria-pressed", "true"
    )
    page.locator("#stage").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#listed-rows button")).to_have_count(5)
    expect(side_heading(page, "Lithium")).to_be_visible()
    expect(page).not_to_have_url(re.compile("focus"))


def test_the_shortest_path_between_two_nodes_is_shown(
    window: BrowserWindow, graph: GraphIds
) -> None:
    page = open_explorer(window, graph.agent_id)
    choose(page, "Lithium")
    page.get_by_role("button", name="Path to…").click()
    page.locator("#listed-rows").get_by_role("button", name=HOSTILE_SHOWN, exact=True).click()
    expect(side_heading(page, "1 shortest path")).to_be_visible()
    steps = page.locator("#side .path li")
    expect(steps.nth(1)).to_contain_text("← buys")
    expect(steps.nth(1)).to_contain_text("Halden Cells")
    expect(steps.nth(2)).to_contain_text("buys →")
    expect(steps).to_have_count(3)
    window.screenshot("graph-path")
    page.reload()
    wait_until_settled(page)
    expect(side_heading(page, "1 shortest path")).to_be_visible()
    page.locator("#stage").focus()
    page.keyboard.press("Escape")
    expect(side_heading(page, "Lithium")).to_be_visible()
    page.keyboard.press("p")
    open_table(page)
    page.locator("#listed-rows").get_by_role("button", name="Halden Cell", exact=True).click()
    expect(side_heading(page, "No path found")).to_be_visible()


def test_search_marks_matches_and_enter_moves_between_them(
    window: BrowserWindow, graph: GraphIds
) -> None:
    page = open_explorer(window, graph.agent_id)
    page.locator("#stage").focus()
    page.keyboard.press("/")
    page.keyboard.type("halden")
    count = page.locator("#find-count")
    # Two by their names, and the analysis by its text.
    expect(count).to_have_text("3 matches")
    expect(page).to_have_url(re.compile("search=halden"))
    window.screenshot("graph-search")
    page.keyboard.press("Enter")
    expect(count).to_have_text("1 of 3")
    expect(side_heading(page, "Halden Cells")).to_be_visible()
    seen: set[str] = set()
    for place in (2, 3):
        page.keyboard.press("Enter")
        expect(count).to_have_text(f"{place} of 3")
        expect(side_heading(page, "Halden Cells")).to_be_hidden()
        page.locator("#side:not([aria-busy])").wait_for()
        seen.add(page.locator("#side h2").inner_text())
    assert "Halden Cell" in seen
    page.keyboard.press("Enter")
    expect(count).to_have_text("1 of 3")
    page.keyboard.press("Shift+Enter")
    expect(count).to_have_text("3 of 3")
    page.reload()
    wait_until_settled(page)
    expect(page.get_by_label("Find in the graph")).to_have_value("halden")
    expect(count).to_have_text("3 matches")
    page.get_by_label("Find in the graph").fill("xylophone")
    expect(count).to_have_text("No match in view")
    page.keyboard.press("Escape")
    expect(count).to_have_text("")
    expect(page).not_to_have_url(re.compile("search"))


def test_matches_outside_of_the_picture_are_added(
    window: BrowserWindow, large_graph_agent_id: UUID
) -> None:
    page = open_explorer(window, large_graph_agent_id, "?limit=300")
    page.get_by_label("Find in the graph").fill("Number 1999")
    more = page.locator("#find-more")
    expect(more).to_contain_text("1 match not in view")
    more.get_by_role("button", name="Number 1999").click()
    expect(side_heading(page, "Number 1999")).to_be_visible()
    expect(page.locator("#listed-count")).to_contain_text("301 nodes")
    expect(more).to_be_hidden()


def test_the_time_slider_shows_the_graph_as_of_a_moment(
    window: BrowserWindow, large_graph_agent_id: UUID
) -> None:
    page = open_explorer(window, large_graph_agent_id, "?limit=300")
    count = page.locator("#listed-count")
    expect(count).to_contain_text("300 nodes")
    move_slider(page, 250)
    expect(count).to_contain_text("150 nodes")
    expect(page).to_have_url(re.compile("until="))
    # The ends are the newest 300 nodes, one an hour: 12 days apart.
    first, last = (page.locator(f"#timeline-{end}").inner_text() for end in ("first", "last"))
    days = page.evaluate(
        "texts => (new Date(texts[1]) - new Date(texts[0])) / 864e5", [first, last]
    )
    assert days in (12, 13)
    wait_until_still(page)
    window.screenshot("graph-time")
    page.reload()
    wait_until_settled(page)
    expect(count).to_contain_text("150 nodes")
    page.get_by_role("button", name="Play").click()
    expect(count).to_contain_text("300 nodes", timeout=20_000)
    expect(page).not_to_have_url(re.compile("until="))
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_type_and_age_filters_are_kept_in_the_url(
    window: BrowserWindow, large_graph_agent_id: UUID
) -> None:
    page = open_explorer(window, large_graph_agent_id, "?limit=300")
    count = page.locator("#listed-count")
    expect(count).to_contain_text("300 nodes")
    person = page.get_by_role("checkbox", name="Person")
    expect(page.locator("label").filter(has=person)).to_contain_text("100")
    person.uncheck()
    expect(count).to_contain_text("200 nodes")
    page.get_by_text("Display").click()
    page.get_by_label("Updated within").select_option("a day")
    expect(count).to_contain_text("16 nodes")
    page.get_by_label("age", exact=True).check()
    expect(page).to_have_url(re.compile("colour=age"))
    page.reload()
    wait_until_settled(page)
    expect(person).not_to_be_checked()
    expect(page.get_by_label("age", exact=True)).to_be_checked()
    expect(count).to_contain_text("16 nodes")
    page.get_by_role("checkbox", name="Place").dblclick()
    expect(person).not_to_be_checked()
    expect(page.get_by_role("checkbox", name="Place")).to_be_checked()


def test_two_thousand_nodes_are_drawn(window: BrowserWindow, large_graph_agent_id: UUID) -> None:
    page = open_explorer(window, large_graph_agent_id, "?limit=2000")
    expect(page.locator("#listed-count")).to_contain_text("2,000 nodes")
    assert page.locator("#stage").get_attribute("data-nodes") == str(NODE_COUNT)
    assert len(list_rows(page)) == 100
    page.get_by_role("button", name="Show more rows").click()
    expect(page.locator("#listed-rows tr")).to_have_count(200)
    page.locator("#listed summary").click()
    window.screenshot("graph-crowd")


def test_nodes_are_arranged_outside_of_the_thread_of_the_page(
    window: BrowserWindow, large_graph_agent_id: UUID
) -> None:
    window.expected.append("GPU stall")
    page = window.open(f"/agents/{large_graph_agent_id}/graph?limit=2000")
    page.locator('#stage[data-state="moving"]').wait_for(timeout=SETTLE_TIMEOUT_MS)
    (worker,) = page.workers
    assert worker.url.endswith("/graph-worker.js")
    # The page itself does not even load the layouts.
    assert page.evaluate("typeof graphologyLibrary") == "undefined"
    wait_until_settled(page)


def test_labels_never_overlap(window: BrowserWindow, graph: GraphIds) -> None:
    page = open_explorer(window, graph.agent_id)
    overlaps = page.evaluate(
        """async () => {
          const script = document.querySelector('script[src$="/graph.js"]').src;
          const { place, overlaps } = await import(script.replace("graph.js", "graph-looks.js"));
          let seed = 1;
          const random = (most) => (seed = (seed * 16807) % 2147483647) % most;
          const stage = { x: 0, y: 0, width: 900, height: 500 };
          const labels = Array.from({ length: 400 }, (_, rank) => ({
            rank, x: random(900), y: random(500), size: random(12), width: 30 + random(120), height: 18,
            isEdge: rank % 7 === 0,
          }));
          const reserved = [{ x: 100, y: 100, width: 200, height: 200 }];
          const boxes = place(labels, reserved, stage).map(({ box }) => box);
          const all = [...boxes, ...reserved];
          const after = (at) => all.slice(at + 1).filter((other) => overlaps(all[at], other));
          const count = all.reduce((sum, _, at) => sum + after(at).length, 0);
          return { count, placed: boxes.length, best: place(labels)[0].label.rank };
        }"""
    )
    assert overlaps["count"] == 0
    assert overlaps["placed"] > 20
    assert overlaps["best"] == 399


def test_the_tag_of_a_chosen_node_is_on_the_stage_and_below_no_tools(
    window: BrowserWindow, graph: GraphIds
) -> None:
    page = open_explorer(window, graph.agent_id)
    faults = page.evaluate(
        """async () => {
          const script = document.querySelector('script[src$="/graph.js"]').src;
          const { colours, drawTag, overlaps } = await import(script.replace("graph.js", "graph-looks.js"));
          const context = document.createElement("canvas").getContext("2d");
          const stage = { x: 0, y: 0, width: 356, height: 380 };
          const tools = [{ x: 8, y: 8, width: 232, height: 34 }, { x: 314, y: 8, width: 34, height: 130 }];
          const faults = [];
          for (const label of ["Lithium", "Halden Cells", "A name that is as long as labels can be, to 48 lett…"])
            for (let x = 20; x <= 340; x += 20)
              for (let y = 70; y <= 370; y += 20) {
                if (tools.some((tool) => overlaps(tool, { x: x - 6, y: y - 6, width: 12, height: 12 }))) continue;
                const node = { x, y, size: 6, label };
                const [disc, tag] = drawTag(context, node, colours(), { isChosen: true, stage, taken: tools });
                const isInside = tag.x >= 0 && tag.y >= 0 && tag.x + tag.width <= 356 && tag.y + tag.height <= 380;
                const isOnNode = overlaps(tag, disc) && label.length < 20;
                if (!isInside || isOnNode || tools.some((tool) => overlaps(tag, tool))) faults.push([label, x, y]);
              }
          return faults;
        }"""
    )
    assert faults == []


def test_an_edge_is_wider_the_more_sites_support_it(window: BrowserWindow, graph: GraphIds) -> None:
    page = open_explorer(window, graph.agent_id)
    widths = page.evaluate(
        """async () => {
          const script = document.querySelector('script[src$="/graph.js"]').src;
          const { edgeWidth } = await import(script.replace("graph.js", "graph-picture.js"));
          return [0, 1, 2, 3, 4, 1000].map(edgeWidth);
        }"""
    )
    assert widths[0] == widths[1] < widths[2] < widths[3] < widths[4] < widths[5] <= 5
    expect(page.locator("#types")).to_contain_text("Wider edge: more sites")


def test_a_phone_has_room_for_names_and_the_bottom_of_the_screen(
    window: BrowserWindow, graph: GraphIds
) -> None:
    window.page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
    page = open_explorer(window, graph.agent_id)
    open_table(page)
    name = page.locator("#listed-rows").get_by_role("button", name=HOSTILE_SHOWN, exact=True)
    box = name.bounding_box()
    assert box is not None
    # Two lines at most.
    assert box["width"] > 200
    assert box["height"] < 60
    expect(page.get_by_role("link", name="The same thing?")).to_be_visible()
    positions = page.locator("main *").evaluate_all(
        "elements => elements.map((each) => getComputedStyle(each).position)"
    )
    assert "fixed" not in positions
    page = window.open(f"/agents/{graph.agent_id}/settings#node-type-Maker")
    cell = page.locator("#node-type-Maker tbody th", has_text="tonnes").bounding_box()
    assert cell is not None
    assert cell["width"] > 200


def test_long_details_do_not_lengthen_the_page(window: BrowserWindow, graph: GraphIds) -> None:
    page = open_explorer(window, graph.agent_id, f"?node={graph.maker}")
    expect(side_heading(page, "Halden Cells")).to_be_visible()
    height = "document.documentElement.scrollHeight"
    before = page.evaluate(height)
    # As many neighbours as a country has; each link has words for screen readers.
    page.locator("#side .edge-group li").first.evaluate(
        "row => { for (let place = 0; place < 200; place += 1) row.after(row.cloneNode(true)); }"
    )
    assert page.evaluate(height) == before


def test_the_picture_fills_the_screen_and_leaves_it(window: BrowserWindow, graph: GraphIds) -> None:
    page = open_explorer(window, graph.agent_id)
    button = page.get_by_role("button", name="Full screen")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("document.fullscreenElement?.id") == "explorer"
    page.locator("#start-nodes button").first.click()
    expect(page.locator("#node-tools")).to_be_visible()
    wait_until_still(page)
    window.screenshot("graph-full-screen")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")


def test_a_graph_without_webgl_is_a_table(window: BrowserWindow, graph: GraphIds) -> None:
    # The library logs an error when it is loaded.
    window.expected.append("getParameter")
    window.page.add_init_script(
        "const get = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        " return kind.startsWith('webgl') ? null : get.call(this, kind, ...rest); }"
    )
    page = window.open(f"/agents/{graph.agent_id}/graph")
    expect(page.locator("#stage-status")).to_contain_text("does not support WebGL")
    choose(page, "Lithium")
    page.get_by_role("button", name="Focus on 1 step").click()
    expect(page.locator("#listed-rows button")).to_have_count(2)


def test_a_node_shows_its_evidence(window: BrowserWindow, graph: GraphIds) -> None:
    page = window.open(f"/agents/{graph.agent_id}/nodes/{graph.maker}")
    article = page.locator("article.thing")
    expect(article.locator(".claims .value", has_text="90")).to_be_visible()
    expect(article.get_by_text("Halden Cells bought 90 tonnes", exact=True)).to_be_visible()
    expect(article.locator(".edge-group").first).to_contain_text("buys")
    expect(article.locator(".history")).to_contain_text("What was bought in 2024")
    article.get_by_text("1 superseded claim").click()
    expect(article.locator(".superseded")).to_contain_text("40")
    expect(article.get_by_role("link", name="Lithium", exact=True)).to_be_visible()
    expect(article.locator(f'a[href$="/conclusions/{graph.analysis}"]')).to_be_visible()
    window.screenshot("node")
    article.get_by_role("link", name="in What was bought in 2024").first.click()
    expect(page.get_by_role("heading", name="Stored text")).to_be_visible()


def test_an_edge_shows_its_evidence(window: BrowserWindow, graph: GraphIds) -> None:
    page = window.open(f"/agents/{graph.agent_id}/edges/{graph.edge}")
    expect(page.get_by_text(graphs.OLD_QUOTE)).to_be_visible()
    expect(page.locator(f'a[href$="/conclusions/{graph.analysis}"]')).to_be_visible()
    window.screenshot("edge")


DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")


def test_hostile_names_and_quotes_have_no_effect(
    window: BrowserWindow, installation: SharedInstallation, graph: GraphIds
) -> None:
    page = open_explorer(window, graph.agent_id, f"?node={graph.hostile}")
    heading = page.locator("#side").get_by_role("heading", level=2)
    expect(heading).to_contain_text("<img src=x onerror=")
    assert any(HOSTILE_SHOWN in row for row in list_rows(page))
    for path in (
        f"nodes/{graph.hostile}",
        f"sources/{graph.hostile_source}",
        "sources",
        "duplicates",
    ):
        page = window.open(f"/agents/{graph.agent_id}/{path}")
        assert (
            page.locator('main img[src="x"], main script, main svg:not(.icon, .meter)').count() == 0
        )
        assert page.locator('a[href^="javascript"]').count() == 0
        assert page.title() != "1"
        assert not DIRECTIONS.search(page.content())
    data = page.request.get(f"{installation.base}/agents/{graph.agent_id}/graph/data").text()
    assert json.dumps(HOSTILE_SHOWN)[1:-1] in data
    page = window.open(f"/agents/{graph.agent_id}/sources/{graph.hostile_source}")
    expect(page.locator(".page-text mark")).to_have_text("</mark><script>document.title=1</script>")


def test_the_settings_list_types_with_their_schema_and_purpose(
    window: BrowserWindow, graph: GraphIds
) -> None:
    page = window.open(f"/agents/{graph.agent_id}/settings")
    types = page.locator("#types")
    maker = types.locator("details", has=page.locator("#node-type-Maker"))
    expect(maker.locator("summary")).to_contain_text("4 nodes")
    expect(maker.get_by_role("table")).to_be_hidden()
    maker.locator("summary").click()
    expect(maker.get_by_role("row", name="tonnes")).to_contain_text("at least 0")
    expect(maker).to_contain_text("None that there was is about who buys.")
    window.screenshot("types")
    # A link to a type opens it.
    page = window.open(f"/agents/{graph.agent_id}/edges/{graph.edge}")
    page.locator("a.pill", has_text="buys").click()
    expect(page.locator("#edge-type-buys")).to_contain_text("Maker")
    expect(page.locator("#edge-type-buys")).to_be_visible()


def test_duplicates_are_compared_merged_and_the_merge_is_undone(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    new_graph = graphs.create_graph(installation, "Doubles watch")
    page = window.open(f"/agents/{new_graph.agent_id}/graph")
    window.expected.append("GPU stall")
    page.get_by_role("link", name="The same thing?").click()
    pair = page.locator(".pair")
    expect(pair.get_by_role("row", name="tonnes")).to_contain_text("90")
    expect(pair.get_by_role("row", name="Edges")).to_contain_text("Lithium")
    expect(pair.get_by_role("row", name="Sources")).to_contain_text("both")
    window.screenshot("duplicates")
    pair.get_by_label("Halden Cells", exact=True).check()
    pair.get_by_label("Reason").fill("Another spelling")
    pair.get_by_role("button", name="Merge").click()
    expect(page.locator("tr", has_text="Another spelling")).to_contain_text("Halden Cell")
    expect(pair).to_have_count(0)
    page = window.open(f"/agents/{new_graph.agent_id}/nodes/{new_graph.duplicate}")
    expect(page).to_have_url(re.compile(f"/nodes/{new_graph.maker}$"))
    expect(page.get_by_text("Also called Halden Cell")).to_be_visible()
    page = window.open(f"/agents/{new_graph.agent_id}/duplicates")
    page.get_by_role("button", name="Undo").click()
    confirm_dialog(page)
    expect(page.get_by_text(re.compile("undone (now|.* ago)"))).to_be_visible()
    expect(pair).to_have_count(1)


def test_a_merge_that_is_refused_is_explained_beside_the_pair(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    new_graph = graphs.create_graph(installation, "Refusal watch")
    page = window.open(f"/agents/{new_graph.agent_id}/duplicates?node={new_graph.duplicate}")
    pair = page.locator(".pair")
    window.expected += ["422", "404", "409"]
    chosen = pair.get_by_label("Halden Cell", exact=True)
    chosen.check()
    pair.get_by_label("Reason").fill("  ")
    pair.get_by_role("button", name="Merge").click()
    expect(pair.get_by_role("alert")).to_have_text(
        "One field needs to be corrected: Reason. Nothing was saved."
    )
    expect(pair.get_by_label("Reason")).to_have_accessible_description(
        "Enter 1 to 500 characters; this text has 0 characters."
    )
    expect(chosen).to_be_checked()
    window.screenshot("duplicates-refused")
    # Merged in another window meanwhile: the pair is not listed any more.
    other = page.context.new_page()
    other.goto(page.url.replace("/merges", "/duplicates"))
    other.get_by_role("button", name="Merge").click()
    expect(other.get_by_role("button", name="Undo")).to_be_visible()
    pair.get_by_label("Reason").fill("Another spelling")
    pair.get_by_role("button", name="Merge").click()
    expect(page.get_by_role("alert").filter(visible=True)).to_contain_text("There is no node")
    expect(page.get_by_role("heading", name="The same thing?", exact=True)).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    confirm_dialog(page)
    # Nodes that may not be merged.
    for name, node_id in (("one", new_graph.maker), ("other", new_graph.analysis)):
        field = pair.locator(f".merging [name={name}]")
        field.evaluate("(field, id) => { field.value = id; }", str(node_id))
    pair.get_by_label("Halden Cells", exact=True).check()
    pair.get_by_role("button", name="Merge").click()
    expect(page.get_by_role("alert").filter(visible=True)).to_contain_text(
        "Not merged: analyses and advice are conclusions and cannot be merged."
    )
    expect(pair).to_have_count(1)


@pytest.mark.parametrize("path", ["graph", "nodes/{node}", "edges/{edge}", "duplicates"])
def test_the_tab_of_the_graph_is_current_on_its_pages(
    window: BrowserWindow, graph: GraphIds, path: str
) -> None:
    page = window.open(f"/agents/{graph.agent_id}/{path.format(node=graph.maker, edge=graph.edge)}")
    tabs = page.get_by_role("navigation", name="Agent")
    expect(tabs.locator("[aria-current=page]")).to_have_text(["Graph"])


def test_nodes_that_are_not_the_same_do_not_come_back_until_that_is_undone(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    new_graph = graphs.create_graph(installation, "Likeness watch")
    page = window.open(f"/agents/{new_graph.agent_id}/nodes/{new_graph.duplicate}")
    page.get_by_role("link", name="Find duplicates").click()
    pair = page.locator(".pair")
    expect(pair).to_have_count(1)
    pair.get_by_role("button", name="Not the same").click()
    expect(page.get_by_role("heading", name="Nothing to review here")).to_be_visible()
    decision = page.locator("tr", has_text="Halden Cells")
    expect(decision).to_contain_text("Halden Cell")
    window.screenshot("distinct")
    page.reload()
    expect(pair).to_have_count(0)
    decision.get_by_role("button", name="Undo").click()
    expect(pair).to_have_count(1)
