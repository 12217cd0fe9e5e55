"""What an agent knows, in the window: a picture, and what is known of each thing."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Known
from tests.support.browser import graphs
from tests.support.browser.graphs import HOSTILE, Told
from tests.support.browser.watched import Watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MANY, MANY_EDGES = 2_000, 4_000
SETTLED_MS = 60_000


@pytest.fixture(scope="module")
def told(known: Known) -> Told:
    return graphs.told(known, "Graph watch")


@pytest.fixture(scope="module")
def crowd(known: Known) -> UUID:
    return graphs.crowd(known, "Crowd watch", of_nodes=MANY, of_edges=MANY_EDGES)


def explored(window: Watched, agent: UUID, query: str = "") -> Page:
    """The explorer, once its picture stands still."""
    page = window.open(f"/agents/{agent}/graph{query}")
    stood_still(page)
    return page


def stood_still(page: Page) -> None:
    page.locator('#stage[data-state="settled"]').wait_for(timeout=SETTLED_MS)


def rows(page: Page) -> list[str]:
    if not page.locator("#listed").evaluate("(listed) => listed.open"):
        page.locator("#listed summary").click()
    page.locator("#listed-rows tr").first.wait_for()
    return page.locator("#listed-rows button").all_inner_texts()


def test_a_node_is_chosen_read_and_left_for_its_neighbour(window: Watched, told: Told) -> None:
    page = explored(window, told.agent_id)
    assert "Halden Cells" in rows(page)
    page.locator("#listed-rows").get_by_role("button", name="Halden Cells", exact=True).click()
    side = page.locator("#side")
    expect(side.get_by_role("heading", name="Halden Cells")).to_be_visible()
    expect(page).to_have_url(re.compile(f"node={told.maker}"))
    window.shoot("graph")
    side.locator(".edges").get_by_role("link", name="Lithium").click()
    expect(side.get_by_role("heading", name="Lithium")).to_be_visible()
    page.reload()
    stood_still(page)
    expect(side.get_by_role("heading", name="Lithium")).to_be_visible()


def test_the_picture_is_walked_through_by_keys_and_by_the_pointer(
    window: Watched, told: Told
) -> None:
    page = explored(window, told.agent_id, f"?node={told.double}")
    assert rows(page) == ["Halden Cell"]
    page = explored(window, told.agent_id, "?search=Lithium")
    stage, side = page.locator("#stage"), page.locator("#side")
    stage.focus()
    page.keyboard.press("ArrowRight")
    expect(side.get_by_role("heading", name="Lithium")).to_be_visible()
    before = len(rows(page))
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


def test_a_click_chooses_and_a_double_click_unfolds(window: Watched, told: Told) -> None:
    page = explored(window, told.agent_id, "?search=Lithium&limit=1")
    # Alone, it stands in the middle.
    assert rows(page) == ["Lithium"]
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


def test_types_and_ages_are_filtered_and_stay_in_the_address(window: Watched, crowd: UUID) -> None:
    page = explored(window, crowd, "?limit=300")
    told = page.locator("#listed-count")
    expect(told).to_contain_text("300 nodes")
    page.get_by_label("Person").uncheck()
    expect(told).to_contain_text("200 nodes")
    page.get_by_label("a day", exact=True).check()
    expect(told).to_contain_text("16 nodes")
    page.get_by_label("freshness").check()
    expect(page.locator("#ages")).to_be_visible()
    page.reload()
    stood_still(page)
    expect(page.get_by_label("Person")).not_to_be_checked()
    expect(page.get_by_label("freshness")).to_be_checked()
    expect(told).to_contain_text("16 nodes")


def test_two_thousand_nodes_are_on_the_screen(window: Watched, crowd: UUID) -> None:
    page = explored(window, crowd, "?limit=2000")
    expect(page.locator("#listed-count")).to_contain_text("2,000 nodes")
    assert page.locator("#stage").get_attribute("data-nodes") == str(MANY)
    assert len(rows(page)) == 100
    page.get_by_role("button", name="Show more rows").click()
    expect(page.locator("#listed-rows tr")).to_have_count(200)
    page.locator("#listed summary").click()
    window.shoot("graph-crowd")


def test_a_graph_without_webgl_is_a_list(window: Watched, told: Told) -> None:
    # The library itself complains while it is loaded.
    window.expected.append("getParameter")
    window.page.add_init_script(
        "const get = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        " return kind.startsWith('webgl') ? null : get.call(this, kind, ...rest); }"
    )
    page = window.open(f"/agents/{told.agent_id}/graph")
    expect(page.locator("#stage-told")).to_contain_text("no WebGL")
    expect(page.locator("#listed-rows").get_by_text("Lithium", exact=True)).to_be_visible()


def test_a_search_leads_into_the_graph(window: Watched, told: Told) -> None:
    page = window.open(f"/agents/{told.agent_id}/graph")
    page.get_by_label("Search names and properties").fill("halden")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("heading", name="Found")).to_be_visible()
    page.locator("#side").get_by_role("link", name="Halden Cells", exact=True).click()
    expect(page.locator("#side").get_by_text("What is known of it")).to_be_visible()
    page = window.open(f"/agents/{told.agent_id}/graph?search=xylophone")
    expect(page.get_by_text("Nothing known is called so")).to_be_visible()


def test_a_node_says_on_what_it_rests(window: Watched, told: Told) -> None:
    page = window.open(f"/agents/{told.agent_id}/nodes/{told.maker}")
    thing = page.locator("article.thing")
    expect(thing.locator(".claims .value", has_text="90")).to_be_visible()
    expect(thing.get_by_text("Halden Cells bought 90 tonnes", exact=True)).to_be_visible()
    thing.get_by_text("1 superseded claim").click()
    expect(thing.locator(".superseded")).to_contain_text("40")
    expect(thing.get_by_role("link", name="Lithium", exact=True)).to_be_visible()
    expect(thing.locator(f'a[href$="/conclusions/{told.analysis}"]')).to_be_visible()
    window.shoot("node")
    thing.get_by_role("link", name="in What was bought in 2024").first.click()
    expect(page.get_by_role("heading", name="As it was read")).to_be_visible()


def test_an_edge_says_on_what_it_rests(window: Watched, told: Told) -> None:
    page = window.open(f"/agents/{told.agent_id}/edges/{told.edge}")
    expect(page.get_by_text(graphs.OLD_QUOTE)).to_be_visible()
    expect(page.locator(f'a[href$="/conclusions/{told.analysis}"]')).to_be_visible()
    window.shoot("edge")


def test_hostile_names_and_quotes_do_nothing(window: Watched, told: Told) -> None:
    page = explored(window, told.agent_id, f"?node={told.hostile}")
    heading = page.locator("#side").get_by_role("heading", level=2)
    expect(heading).to_contain_text("<img src=x onerror=")
    assert any(HOSTILE in each for each in rows(page))
    for path in (
        f"nodes/{told.hostile}",
        f"sources/{told.hostile_source}",
        "sources",
        "duplicates",
    ):
        page = window.open(f"/agents/{told.agent_id}/{path}")
        assert page.locator('main img[src="x"], main script, main svg').count() == 0
        assert page.locator('a[href^="javascript"]').count() == 0
        assert page.title() != "1"
    page = window.open(f"/agents/{told.agent_id}/sources/{told.hostile_source}")
    expect(page.locator(".page-text mark")).to_have_text("</mark><script>document.title=1</script>")


def test_types_say_what_they_are_for(window: Watched, told: Told) -> None:
    page = window.open(f"/agents/{told.agent_id}/types")
    made = page.locator("#type-Maker")
    expect(made.get_by_role("row", name="tonnes")).to_contain_text("at least 0")
    expect(made).to_contain_text("None that there was is about who buys.")
    expect(made.get_by_role("link", name="4 nodes")).to_be_visible()
    window.shoot("types")
    page.get_by_role("link", name="edge types").click()
    expect(page.locator("#type-buys")).to_contain_text("Maker")


def test_another_s_graph_is_not_there(window: Watched, told: Told) -> None:
    window.expected.append("404")
    nowhere = "00000000-0000-4000-8000-000000000000"
    for path in (f"nodes/{nowhere}", f"edges/{nowhere}", f"graph/data?node={nowhere}"):
        page = window.open(f"/agents/{told.agent_id}/{path}")
        expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()


def test_doubles_are_made_one_and_two_again(window: Watched, known: Known) -> None:
    told = graphs.told(known, "Doubles watch")
    page = window.open(f"/agents/{told.agent_id}/duplicates")
    window.shoot("duplicates")
    pair = page.locator("form.double")
    pair.get_by_label("Halden Cells", exact=True).check()
    pair.get_by_label("Why they are one").fill("Another spelling")
    pair.get_by_role("button", name="Merge").click()
    expect(page.locator("tr", has_text="Another spelling")).to_contain_text("Halden Cell")
    expect(page.locator("form.double")).to_have_count(0)
    page = window.open(f"/agents/{told.agent_id}/nodes/{told.double}")
    expect(page).to_have_url(re.compile(f"/nodes/{told.maker}$"))
    expect(page.get_by_text("Also called Halden Cell")).to_be_visible()
    page = window.open(f"/agents/{told.agent_id}/duplicates")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text(re.compile("undone (now|.* ago)"))).to_be_visible()
    expect(page.locator("form.double")).to_have_count(1)
