"""Settings of an agent: saving, conflicting edits, prompt versions and deletion."""

import re

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.support.browser.agents import ITERATION_TIMEOUT_MS, create_agent
from tests.support.browser.browser_window import NARROW, BrowserWindow, answer_dialog

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


def save(page: Page) -> None:
    page.locator(".save-bar").get_by_role("button", name="Save").click()


def test_all_settings_are_saved_together(window: BrowserWindow, agent_id: str) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    bar = page.locator(".save-bar")
    expect(bar).to_be_hidden()
    window.screenshot("agent-settings")
    page.get_by_label("Name", exact=True).fill("Zinc desk")
    expect(bar).to_be_visible()
    bar.get_by_role("button", name="Discard").click()
    expect(bar).to_be_hidden()
    expect(page.get_by_label("Name", exact=True)).not_to_have_value("Zinc desk")

    page.get_by_label("Name", exact=True).fill("Zinc desk")
    page.get_by_label("Interval", exact=True).fill("2 hours")
    page.get_by_label("Longest interval").fill("1d")
    page.get_by_label("Advice may cite a single analysis").check()
    page.get_by_label("Feedback rounds").select_option("1 round")
    page.get_by_label("Budget for checks").fill("0.5")
    page.locator("#models").get_by_label("Observer").fill("sandbox-other")
    page.get_by_label("US dollars a day").fill("12.5")
    window.screenshot("agent-settings-unsaved")
    save(page)
    expect(page.get_by_role("status").filter(has_text="Settings saved.")).to_be_visible()
    expect(page.locator("#agent-name")).to_have_text("Zinc desk")
    expect(page.get_by_label("Interval", exact=True)).to_have_value("2 h")
    expect(page.get_by_label("Longest interval")).to_have_value("1 d")
    expect(page.get_by_label("Advice may cite a single analysis")).to_be_checked()
    expect(page.get_by_label("Feedback rounds")).to_have_value("1")
    expect(page.get_by_label("Budget for checks")).to_have_value("0.5")
    expect(page.locator("#models").get_by_label("Observer")).to_have_value("sandbox-other")
    expect(page.locator("#models").get_by_label("Conversation")).to_have_value("")
    expect(page.get_by_label("US dollars a day")).to_have_value("12.5")
    expect(page.get_by_label("Calls a day")).to_have_value("")
    expect(page.locator("#budget")).to_contain_text("left")


def test_wrong_values_are_named_beside_their_fields(window: BrowserWindow, agent_id: str) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    page.get_by_label("Interval", exact=True).fill("5")
    page.get_by_label("Share of new evidence").fill("most")
    page.get_by_label("Calls a day").fill("-1")
    window.expected.append("422")
    save(page)
    expect(
        page.get_by_role("alert").filter(has_text="3 fields need to be corrected")
    ).to_be_visible()
    for label, typed, sentence in (
        ("Interval", "5", "Enter a duration from 10 s to 366 d, not “5”."),
        ("Share of new evidence", "most", "Enter a number from 0 to 1, not “most”."),
        ("Calls a day", "-1", "Enter a whole number of at least 0, not “-1”."),
    ):
        field = page.get_by_label(label, exact=True)
        expect(field).to_have_value(typed)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description(re.compile(re.escape(sentence)))
    expect(page.get_by_label("Interval", exact=True)).to_be_focused()
    expect(page.locator(".field-error")).to_have_count(3)
    window.screenshot("agent-settings-wrong")
    sections = page.get_by_role("navigation", name="Settings of this agent")
    wrong = sections.locator(".sections-list a", has_text="(has errors)")
    expect(wrong).to_have_text(
        ["Schedule (has errors)", "Reading (has errors)", "Budget (has errors)"]
    )
    summary = page.get_by_role("alert")
    for label in ("Interval", "Share of new evidence", "Calls a day"):
        summary.get_by_role("link", name=label, exact=True).click()
        expect(page.get_by_label(label, exact=True)).to_be_focused()


def test_unsaved_changes_are_not_lost_without_a_question(
    window: BrowserWindow, agent_id: str
) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    page.get_by_label("Name", exact=True).fill("Not saved")
    questions: list[str] = []

    def stay(dialog: Dialog) -> None:
        questions.append(dialog.type)
        dialog.dismiss()

    page.once("dialog", stay)
    # The navigation is cancelled, so there is none to wait for.
    page.get_by_role("link", name="Inbox").click(no_wait_after=True)
    expect(page.get_by_label("Name", exact=True)).to_have_value("Not saved")
    assert questions == ["beforeunload"]
    page.locator(".save-bar").get_by_role("button", name="Discard").click()
    page.get_by_role("link", name="Inbox").click()
    page.wait_for_url("**/inbox")


def test_a_conflicting_edit_is_reported_and_no_input_is_lost(
    window: BrowserWindow, agent_id: str
) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    other = open_second_tab(page)
    other.get_by_label("Name", exact=True).fill("Theirs of zinc")
    save(other)
    expect(other.locator("#agent-name")).to_have_text("Theirs of zinc")

    window.expected.append("412")
    page.get_by_label("Name", exact=True).fill("Mine of zinc")
    save(page)
    alert = page.get_by_role("alert").filter(has_text="changed after you loaded the page")
    expect(alert).to_contain_text("Name: Theirs of zinc")
    expect(page.locator("#general")).to_contain_text("Now stored: Theirs of zinc")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Mine of zinc")
    window.screenshot("agent-settings-changed-meanwhile")
    save(page)
    expect(page.locator("#agent-name")).to_have_text("Mine of zinc")


def test_a_budget_that_was_changed_meanwhile_is_not_overwritten(
    window: BrowserWindow, agent_id: str
) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    other = open_second_tab(page)
    other.get_by_label("US dollars a day").fill("3")
    save(other)
    expect(other.get_by_label("US dollars a day")).to_have_value("3")
    window.expected.append("412")
    page.get_by_label("Calls a day").fill("900")
    save(page)
    expect(page.locator("#budget")).to_contain_text("Now stored: 3")
    expect(page.get_by_label("Calls a day")).to_have_value("900")


def test_domains_are_saved_and_bad_ones_reported(window: BrowserWindow, agent_id: str) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    preferred, barred = page.get_by_label("Preferred domains"), page.get_by_label("Barred")
    errors = page.locator("#research .field-error")
    preferred.fill("Reuters.com\nft.com")
    barred.fill("press.example, co.uk")
    window.expected += ["422", "422"]
    save(page)
    expect(errors).to_contain_text("“co.uk” is a public suffix")
    expect(preferred).to_have_value("Reuters.com\nft.com")
    expect(barred).to_have_value("press.example, co.uk")
    barred.fill("press.example ft.com")
    save(page)
    expect(errors).to_contain_text("ft.com is both preferred and barred")
    barred.fill("press.example")
    save(page)
    expect(page.get_by_role("status").filter(has_text="Settings saved.")).to_be_visible()
    expect(preferred).to_have_value("reuters.com\nft.com")
    expect(barred).to_have_value("press.example")
    window.screenshot("agent-settings-domains")
    preferred.fill("")
    save(page)
    expect(preferred).to_have_value("")
    expect(barred).to_have_value("press.example")


def test_a_taken_name_is_reported_next_to_its_field(window: BrowserWindow, agent_id: str) -> None:
    create_agent(window, "Watch lead recyclers and their scrap", name="Lead desk")
    window.expected.append("409")
    page = window.open(f"/agents/{agent_id}/settings")
    page.get_by_label("Name", exact=True).fill("lead desk")
    save(page)
    expect(page.locator("#general .field-error")).to_contain_text("already exists")
    expect(page.get_by_label("Name", exact=True)).to_have_value("lead desk")


def test_the_sections_are_a_folded_list_on_a_phone(window: BrowserWindow, agent_id: str) -> None:
    page = window.page
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
    window.open(f"/agents/{agent_id}/settings")
    fold = page.locator(".sections-fold")
    expect(page.locator(".sections-list")).to_be_hidden()
    fold.locator("summary").click()
    fold.get_by_role("link", name="Budget").click()
    expect(page.locator("#budget")).to_be_in_viewport()
    expect(fold.get_by_role("link", name="Budget")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]


def test_a_prompt_is_edited_compared_and_restored(window: BrowserWindow, agent_id: str) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    page.locator("#prompts").get_by_role("link", name="Observer").click()
    editor = page.get_by_label("System prompt")
    first = editor.input_value()
    editor.fill(f"{first}\n\nNever plan a query about the weather.")
    save(page)
    expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    newest = page.locator(".versions > li").first
    expect(newest).to_contain_text("by you")
    expect(newest.locator("ins")).to_contain_text("Never plan a query about the weather.")
    expect(newest.locator("del")).to_have_count(0)
    window.screenshot("prompt")

    oldest = page.locator(".versions > li").last
    oldest.locator("summary").click()
    oldest.get_by_role("button", name="Restore").click()
    expect(page.get_by_role("dialog", name="Restore version 1?")).to_be_visible()
    window.screenshot("prompt-restore")
    answer_dialog(page, "Restore")
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
    save(other)
    expect(other.get_by_role("status").filter(has_text="Saved")).to_be_visible()

    window.expected.append("412")
    page.get_by_label("System prompt").fill("Weigh what there is. Be thorough.")
    save(page)
    alert = page.get_by_role("alert").filter(has_text="changed after you loaded the page")
    expect(alert.locator("del")).to_contain_text("brief.")
    expect(alert.locator("ins")).to_contain_text("thorough.")
    expect(page.get_by_label("System prompt")).to_have_value("Weigh what there is. Be thorough.")
    window.screenshot("prompt-changed-meanwhile")
    save(page)
    expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()


def test_an_agent_is_reconfigured_for_a_new_mission(window: BrowserWindow, agent_id: str) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    page.get_by_text("Change the mission and configure again").click()
    mission = page.get_by_label("Mission", exact=True)
    window.expected.append("422")
    mission.fill("Zinc")
    page.get_by_role("button", name="Configure again").click()
    answer_dialog(page, "Configure")
    expect(page.locator("#configure .field-error")).to_contain_text("10 to 4000 characters")
    expect(mission).to_have_value("Zinc")
    mission.fill("Watch zinc smelters, and above all their strikes")
    page.locator("#configure").get_by_label("Conversation").check()
    page.get_by_role("button", name="Configure again").click()
    answer_dialog(page, "Configure")
    page.wait_for_url(f"**/agents/{agent_id}")
    window.open(f"/agents/{agent_id}/settings")
    expect(page.locator("#prompts")).to_contain_text("during configuration")


def test_an_agent_is_deleted_after_its_name_is_typed(window: BrowserWindow, agent_id: str) -> None:
    page = window.open(f"/agents/{agent_id}/settings")
    name = page.locator("#agent-name").inner_text()
    window.expected += ["422", "404"]
    typed = page.locator("#delete").get_by_role("textbox")
    typed.fill("something else")
    page.get_by_role("button", name="Delete agent").click()
    expect(page.locator("#delete .field-error")).to_contain_text(name)
    expect(typed).to_have_value("something else")
    typed.fill(name)
    page.get_by_role("button", name="Delete agent").click()
    page.wait_for_url("**/agents")
    window.open(f"/agents/{agent_id}")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    page.get_by_role("link", name="Go to your agents").click()
    page.wait_for_url("**/agents")
