"""What an owner decides of an agent: kept, told apart from what somebody else decided meanwhile, and taken back."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.agents import ENDS_MS, made
from tests.support.browser.watched import Watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def settled(window: Watched) -> str:
    """An agent of the test's own that has run once."""
    agent_id = made(window, "Watch zinc smelters and the power they buy")
    page = window.open(f"/agents/{agent_id}")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ENDS_MS)
    return agent_id


def beside(page: Page) -> Page:
    """Another tab at the same address, of the same owner."""
    other = page.context.new_page()
    other.goto(page.url)
    return other


def test_name_rhythm_models_and_budget_are_kept(window: Watched, settled: str) -> None:
    page = window.open(f"/agents/{settled}/settings")
    window.shoot("agent-settings")
    general = page.locator("#general")
    general.get_by_label("Name").fill("Zinc desk")
    general.get_by_label("Every").fill("7200")
    general.get_by_role("button", name="Save").click()
    expect(general.get_by_role("status")).to_have_text("Saved.")
    expect(page.locator("#agent-name")).to_have_text("Zinc desk")
    expect(general.get_by_label("Every")).to_have_value("7200")

    models = page.locator("#models")
    models.get_by_label("Observer").fill("sandbox-other")
    models.get_by_role("button", name="Save").click()
    expect(models.get_by_role("status")).to_have_text("Saved.")
    expect(models.get_by_label("Observer")).to_have_value("sandbox-other")
    expect(models.get_by_label("Conversation")).to_have_value("")

    budget = page.locator("#budget")
    budget.get_by_label("US dollars a day").fill("12.5")
    budget.get_by_role("button", name="Save").click()
    expect(budget.get_by_role("status")).to_have_text("Saved.")
    expect(budget.get_by_label("US dollars a day")).to_have_value("12.5")
    expect(budget.get_by_label("Calls a day")).to_have_value("")
    expect(budget).to_contain_text("left")


def test_an_edit_over_somebody_elses_is_told_and_nothing_is_lost(
    window: Watched, settled: str
) -> None:
    page = window.open(f"/agents/{settled}/settings")
    other = beside(page)
    other.locator("#general").get_by_label("Name").fill("Theirs of zinc")
    other.locator("#general").get_by_role("button", name="Save").click()
    expect(other.locator("#agent-name")).to_have_text("Theirs of zinc")

    window.expected.append("412")
    page.locator("#general").get_by_label("Name").fill("Mine of zinc")
    page.locator("#general").get_by_role("button", name="Save").click()
    expect(page.locator("#general").get_by_role("alert")).to_contain_text("Theirs of zinc")
    expect(page.locator("#general").get_by_label("Name")).to_have_value("Mine of zinc")
    window.shoot("agent-settings-changed-meanwhile")
    page.locator("#general").get_by_role("button", name="Save").click()
    expect(page.locator("#agent-name")).to_have_text("Mine of zinc")


def test_a_name_that_is_taken_is_told_beside_it(window: Watched, settled: str) -> None:
    made(window, "Watch lead recyclers and their scrap", name="Lead desk")
    window.expected.append("409")
    page = window.open(f"/agents/{settled}/settings")
    page.locator("#general").get_by_label("Name").fill("lead desk")
    page.locator("#general").get_by_role("button", name="Save").click()
    expect(page.locator("#general").get_by_role("alert")).to_contain_text("exists already")
    expect(page.locator("#general").get_by_label("Name")).to_have_value("lead desk")


def test_a_prompt_is_edited_compared_and_restored(window: Watched, settled: str) -> None:
    page = window.open(f"/agents/{settled}/settings")
    page.get_by_role("link", name="Observer").click()
    editor = page.get_by_label("System prompt")
    first = editor.input_value()
    editor.fill(f"{first}\n\nNever plan a query about the weather.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    newest = page.locator(".versions > li").first
    expect(newest).to_contain_text("by you")
    expect(newest.locator("ins")).to_contain_text("Never plan a query about the weather.")
    expect(newest.locator("del")).to_have_count(0)
    window.shoot("prompt")

    page.once("dialog", lambda dialog: dialog.accept())
    oldest = page.locator(".versions > li").last
    oldest.locator("summary").click()
    oldest.get_by_role("button", name="Restore").click()
    expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    expect(editor).to_have_value(first)
    expect(page.locator(".versions > li")).to_have_count(3)
    expect(page.locator(".versions > li").first.locator("del")).to_contain_text("weather")


def test_a_prompt_that_somebody_else_changed_is_not_overwritten(
    window: Watched, settled: str
) -> None:
    page = window.open(f"/agents/{settled}/settings/prompts/analysis_generation")
    other = beside(page)
    other.get_by_label("System prompt").fill("Weigh what there is. Be brief.")
    other.get_by_role("button", name="Save").click()
    expect(other.get_by_role("status").filter(has_text="Saved")).to_be_visible()

    window.expected.append("412")
    page.get_by_label("System prompt").fill("Weigh what there is. Be thorough.")
    page.get_by_role("button", name="Save").click()
    told = page.get_by_role("alert").filter(has_text="was changed while you wrote")
    expect(told.locator("del")).to_contain_text("brief.")
    expect(told.locator("ins")).to_contain_text("thorough.")
    expect(page.get_by_label("System prompt")).to_have_value("Weigh what there is. Be thorough.")
    window.shoot("prompt-changed-meanwhile")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()


def test_it_is_configured_anew_of_another_mission(window: Watched, settled: str) -> None:
    page = window.open(f"/agents/{settled}/settings")
    page.get_by_text("Configure anew").first.click()
    page.locator("#mission textarea").fill("Watch zinc smelters, and above all their strikes")
    page.locator("#mission").get_by_label("Conversation").check()
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("#mission").get_by_role("button", name="Configure anew").click()
    page.wait_for_url(f"**/agents/{settled}")
    window.open(f"/agents/{settled}/settings")
    expect(page.locator("#prompts")).to_contain_text("by the configuration")


def test_it_is_deleted_by_who_types_its_name(window: Watched, settled: str) -> None:
    page = window.open(f"/agents/{settled}/settings")
    name = page.locator("#agent-name").inner_text()
    window.expected += ["422", "404"]
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_label("Type its name").fill("something else")
    page.get_by_role("button", name="Delete the agent").click()
    expect(page.locator("#delete").get_by_role("alert")).to_contain_text(name)
    page.get_by_label("Type its name").fill(name)
    page.get_by_role("button", name="Delete the agent").click()
    page.wait_for_url("**/agents")
    window.open(f"/agents/{settled}")
    expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
