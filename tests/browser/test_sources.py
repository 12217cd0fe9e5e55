"""Pages that were read, in the window: found, read with their quotes, not believed and believed again."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Known
from tests.support.browser import graphs
from tests.support.browser.graphs import OLD_QUOTE, Told
from tests.support.browser.watched import Watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def told(known: Known) -> Told:
    return graphs.told(known, "Source watch")


def test_pages_are_found_by_a_part_of_their_address(window: Watched, told: Told) -> None:
    page = window.open(f"/agents/{told.agent_id}/sources")
    expect(page.locator("tbody tr")).to_have_count(3)
    window.shoot("sources")
    page.get_by_label("Search addresses and titles").fill("example/2024")
    page.get_by_role("button", name="Find").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("What was bought in 2024")
    page.get_by_label("Search addresses and titles").fill("100%_")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("heading", name="No such page")).to_be_visible()


def test_quotes_are_marked_where_they_stand(window: Watched, told: Told) -> None:
    page = window.open(f"/agents/{told.agent_id}/sources/{told.old_source}")
    marks = page.locator(".page-text mark")
    # Four quotes, of which one overlaps the end of the others: what only they say, both, only it.
    assert marks.all_inner_texts() == [
        "Halden Cells bought 40 ",
        "tonnes – ½ of all lithium.",
        " Nothing",
    ]
    assert "".join(marks.all_inner_texts()).startswith(OLD_QUOTE)
    rests = page.locator(".rests li")
    expect(rests).to_have_count(4)
    rests.filter(has_text="Lithium").filter(has_not_text="buys").get_by_role(
        "link", name="in the text"
    ).click()
    expect(page.locator(".page-text .mark-number:target")).to_be_in_viewport()
    window.shoot("source")


def test_a_page_is_not_believed_and_believed_again(window: Watched, known: Known) -> None:
    told = graphs.told(known, "Disbelief watch")
    page = window.open(f"/agents/{told.agent_id}/sources/{told.old_source}")
    page.get_by_text("Do you not believe this page?").click()
    expect(page.get_by_text("quotes of 4 nodes and edges rest on it")).to_be_visible()
    page.get_by_label("Why not?").fill("It was made up")
    page.get_by_role("button", name="Retract it").click()
    belief = page.locator("#belief")
    expect(belief).to_contain_text("because: It was made up")
    # Without a reload: what rests on it is gone through beside the requests.
    expect(belief).to_contain_text("has been gone through: 1 analysis")
    window.shoot("source-retracted")
    window.open(f"/agents/{told.agent_id}/edges/{told.edge}")
    expect(page.get_by_text("Unsupported")).to_be_visible()
    window.shoot("edge-unsupported")
    window.open(f"/agents/{told.agent_id}/sources?shown=retracted")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("tbody a").click()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Believe it again").click()
    expect(page.get_by_text("Do you not believe this page?")).to_be_visible()
    window.open(f"/agents/{told.agent_id}/edges/{told.edge}")
    expect(page.get_by_text("Unsupported")).to_be_hidden()
