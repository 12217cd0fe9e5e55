"""Settings of an agent: saving, conflicting edits, prompt versions and deletion."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.agents import ITERATION_TIMEOUT_MS, create_agent
from tests.support.browser.browser_window import BrowserWindow

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def agent_id(window: BrowserWindow) -> str:
    """The id of a new agent that has completed an iteration."""
    new_id = create_agent(window, "Watch zinc smelters and the power they buy")
    page = window.open(f"/agents/{new_id}")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ITERATION_TIMEOUT_MS)
    return new_id


def open_second_tab(page: Page) -> Page:
    """Open the same URL in another tab of the same owner."""
    tab = page.context.new_page()
    tab.goto(page.url)
    return tab


def test_name_interval_models_and_budget_are_saved(window: BrowserWindow, agent_id: str) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    window.screenshot("agent-settings")
    general = page.locator("#general")
    general.get_by_label("Name").fill("Zinc desk")
    general.get_by_label("Every").fill("7200")
    general.get_by_label("Advice may cite a single analysis").check()
    general.get_by_role("button", name="Save").click()
    expect(general.get_by_role("status")).to_have_text("Saved.")
    expect(page.locator("#agent-name")).to_have_text("Zinc desk")
    expect(general.get_by_label("Every")).to_have_value("7200")
    expect(general.get_by_label("Advice may cite a single analysis")).to_be_checked()

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


def test_a_conflicting_edit_is_reported_and_no_input_is_lost(
    window: BrowserWindow, agent_id: str
) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    other = open_second_tab(page)
    other.locator("#general").get_by_label("Name").fill("Theirs of zinc")
    other.locator("#general").get_by_role("button", name="Save").click()
    expect(other.locator("#agent-name")).to_have_text("Theirs of zinc")

    window.expected.append("412")
    page.locator("#general").get_by_label("Name").fill("Mine of zinc")
    page.locator("#general").get_by_role("button", name="Save").click()
    expect(page.locator("#general").get_by_role("alert")).to_contain_text("Theirs of zinc")
    expect(page.locator("#general").get_by_label("Name")).to_have_value("Mine of zinc")
    window.screenshot("agent-settings-changed-meanwhile")
    page.locator("#general").get_by_role("button", name="Save").click()
    expect(page.locator("#agent-name")).to_have_text("Mine of zinc")


def test_domains_are_saved_and_bad_ones_reported(window: BrowserWindow, agent_id: str) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    general = page.locator("#general")
    preferred, barred = general.get_by_label("Preferred domains"), general.get_by_label("Barred")
    preferred.fill("Reuters.com\nft.com")
    barred.fill("press.example, co.uk")
    window.expected += ["422", "422"]
    general.get_by_role("button", name="Save").click()
    expect(general.get_by_role("alert")).to_contain_text("'co.uk' is a public suffix")
    expect(preferred).to_have_value("Reuters.com\nft.com")
    expect(barred).to_have_value("press.example\nco.uk")
    barred.fill("press.example ft.com")
    general.get_by_role("button", name="Save").click()
    expect(general.get_by_role("alert")).to_contain_text("ft.com is both preferred and barred")
    barred.fill("press.example")
    general.get_by_role("button", name="Save").click()
    expect(general.get_by_role("status")).to_have_text("Saved.")
    expect(preferred).to_have_value("reuters.com\nft.com")
    expect(barred).to_have_value("press.example")
    window.screenshot("agent-settings-domains")
    preferred.fill("")
    general.get_by_role("button", name="Save").click()
    expect(preferred).to_have_value("")
    expect(barred).to_have_value("press.example")


def test_a_taken_name_is_reported_next_to_its_field(window: BrowserWindow, agent_id: str) -> None:
    create_agent(window, "Watch lead recyclers and their scrap", name="Lead desk")
    window.expected.append("409")
    page = window.open(f"/agents/{agent_id}/settings")
    page.locator("#general").get_by_label("Name").fill("lead desk")
    page.locator("#general").get_by_role("button", name="Save").click()
    expect(page.locator("#general").get_by_role("alert")).to_contain_text("exists already")
    expect(page.locator("#general").get_by_label("Name")).to_have_value("lead desk")


def test_a_prompt_is_edited_compared_and_restored(window: BrowserWindow, agent_id: str) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
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
    window.screenshot("prompt")

    page.once("dialog", lambda dialog: dialog.accept())
    oldest = page.locator(".versions > li").last
    oldest.locator("summary").click()
    oldest.get_by_role("button", name="Restore").click()
    expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    expect(editor).to_have_value(first)
    expect(page.locator(".versions > li")).to_have_count(3)
    expect(page.locator(".versions > li").first.locator("del")).to_contain_text("weather")


def test_a_prompt_that_somebody_else_changed_is_not_overwritten(
    window: BrowserWindow, agent_id: str
) -> None:
    page = window.open(f"/agents/{agent_id}/settings/prompts/analysis_generation")
    other = open_second_tab(page)
    other.get_by_label("System prompt").fill("Weigh what there is. Be brief.")
    other.get_by_role("button", name="Save").click()
    expect(other.get_by_role("status").filter(has_text="Saved")).to_be_visible()

    window.expected.append("412")
    page.get_by_label("System prompt").fill("Weigh what there is. Be thorough.")
    page.get_by_role("button", name="Save").click()
    alert = page.get_by_role("alert").filter(has_text="was changed while you wrote")
    expect(alert.locator("del")).to_contain_text("brief.")
    expect(alert.locator("ins")).to_contain_text("thorough.")
    expect(page.get_by_label("System prompt")).to_have_value("Weigh what there is. Be thorough.")
    window.screenshot("prompt-changed-meanwhile")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()


def test_an_agent_is_reconfigured_for_a_new_mission(window: BrowserWindow, agent_id: str) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    page.get_by_text("Configure anew").first.click()
    page.locator("#mission textarea").fill("Watch zinc smelters, and above all their strikes")
    page.locator("#mission").get_by_label("Conversation").check()
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("#mission").get_by_role("button", name="Configure anew").click()
    page.wait_for_url(f"**/agents/{agent_id}")
    window.open(f"/agents/{agent_id}/settings")
    expect(page.locator("#prompts")).to_contain_text("by the configuration")


def test_an_agent_is_deleted_after_its_name_is_typed(window: BrowserWindow, agent_id: str) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    name = page.locator("#agent-name").inner_text()
    window.expected += ["422", "404"]
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_label("Type its name").fill("something else")
    page.get_by_role("button", name="Delete the agent").click()
    expect(page.locator("#delete").get_by_role("alert")).to_contain_text(name)
    page.get_by_label("Type its name").fill(name)
    page.get_by_role("button", name="Delete the agent").click()
    page.wait_for_url("**/agents")
    window.open(f"/agents/{agent_id}")
    expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
