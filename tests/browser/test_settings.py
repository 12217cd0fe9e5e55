"""Settings: tokens, sessions, notification destinations, the budget and users."""

import re

import httpx
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.conftest import SharedInstallation, WindowFactory
from tests.support.browser.browser_window import NARROW, WIDE, BrowserWindow, answer_dialog

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOOK = "https://hooks.example.org/of-a-test"


def is_within_its_box(element: Locator) -> bool:
    """Whether an element in a table is not cut off at the side of the box around the table."""
    return bool(
        element.evaluate(
            """element => {
              const [inner, outer] = [element, element.closest(".grid")].map((each) => each.getBoundingClientRect());
              return inner.left >= outer.left && inner.right <= outer.right;
            }"""
        )
    )


def request_status(installation: SharedInstallation, token: str) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return httpx.get(f"{installation.base}/api/v1/me", headers=headers).status_code


def test_a_token_is_shown_once_copied_used_and_revoked(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/settings/tokens")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_label("Name", exact=True).fill("Nightly backup")
    page.get_by_label("Expires after").select_option("7 days")
    page.get_by_role("button", name="Create token").click()
    token = page.locator("#shown-once").inner_text()
    assert token.startswith("vgl_")
    assert request_status(installation, token) == 200
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == token
    window.screenshot("settings-tokens")
    page = window.open("/settings/tokens")
    assert token not in page.content()
    page.get_by_role("button", name="Revoke Nightly backup").click()
    answer_dialog(page, "Cancel")
    expect(page.get_by_text("Nightly backup")).to_be_visible()
    page.get_by_role("button", name="Revoke Nightly backup").click()
    expect(page.get_by_role("dialog", name="Revoke Nightly backup?")).to_be_visible()
    window.screenshot("settings-revoke")
    answer_dialog(page, "Revoke")
    expect(page.get_by_text("Nightly backup")).to_have_count(0)
    assert request_status(installation, token) == 401


def test_an_invalid_token_request_is_rejected_with_a_message(window: BrowserWindow) -> None:
    window.expected.append("422")
    page = window.open("/settings/tokens")
    page.get_by_label("Name", exact=True).fill("Nothing")
    for checkbox in page.get_by_role("checkbox").all():
        checkbox.uncheck()
    # A lifetime that the form does not offer.
    page.get_by_label("Expires after").evaluate(
        "select => { select.options[0].value = '0'; select.value = '0'; }"
    )
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Nothing")
    expect(page.get_by_text("Choose at least one of the scopes.")).to_be_visible()
    expect(page.get_by_text("Choose a period.")).to_be_visible()
    window.screenshot("settings-token-wrong")
    summary = page.get_by_role("alert")
    summary.get_by_role("link", name="Expires after").click()
    expect(page.get_by_label("Expires after")).to_be_focused()
    summary.get_by_role("link", name="Scopes").click()
    expect(page.get_by_role("checkbox").first).to_be_focused()


def test_other_browsers_are_signed_out(
    window: BrowserWindow, open_window: WindowFactory, installation: SharedInstallation
) -> None:
    other = open_window()
    other.page.goto(installation.link())
    other.page.get_by_role("button", name="Sign in").click()
    other.page.wait_for_url("**/agents")
    page = window.open("/settings")
    expect(page.get_by_text("this browser", exact=True)).to_have_count(1)
    window.screenshot("settings")
    page.get_by_role("button", name="Sign out all others").click()
    answer_dialog(page, "Sign out")
    expect(page.get_by_role("button", name="Sign out all others")).to_have_count(0)
    other.open("/settings")
    expect(other.page).to_have_url(f"{installation.base}/sign-in")
    page = window.open("/settings")
    expect(page.get_by_text("this browser", exact=True)).to_be_visible()


def test_the_budget_of_the_installation_is_set_and_removed(window: BrowserWindow) -> None:
    page = window.open("/settings")
    amount, calls = page.get_by_label("US dollars a day"), page.get_by_label("Calls a day")
    amount.fill("1234.5")
    calls.fill("99999")
    page.get_by_role("button", name="Save budget").click()
    expect(page.get_by_text("Budget saved.")).to_be_visible()
    expect(amount).to_have_value("1234.5")
    expect(page.locator("#budget")).to_contain_text("left")
    window.expected.append("422")
    amount.fill("much")
    page.get_by_role("button", name="Save budget").click()
    expect(page.get_by_text("Enter a number from 0 to 100,000, not “much”.")).to_be_visible()
    expect(amount).to_have_value("much")
    amount.fill("")
    calls.fill("")
    page.get_by_role("button", name="Save budget").click()
    expect(page.locator("#budget")).to_contain_text("no cap")
    expect(amount).to_have_value("")


def test_a_webhook_is_created_tested_rekeyed_paused_and_deleted(window: BrowserWindow) -> None:
    page = window.open("/settings/destinations")
    page.get_by_label("Address").fill(HOOK)
    page.get_by_role("button", name="Add destination").click()
    secret = page.locator("#shown-once").inner_text()
    assert secret.startswith("whsec_")
    window.open("/settings/destinations")
    assert secret not in page.content()
    window.screenshot("settings-destinations")
    page.get_by_role("link", name=HOOK).click()
    assert secret not in page.content()
    page.get_by_role("button", name="Send test").click()
    delivery = page.locator("#deliveries tbody tr")
    expect(delivery).to_contain_text("Test")
    # Without a reload: the host name cannot be resolved.
    expect(delivery.locator(".delivery-error")).to_be_visible(timeout=30_000)
    window.screenshot("settings-destination")
    page.get_by_label("Status").select_option("delivered")
    expect(page.get_by_text("No deliveries with the status delivered")).to_be_visible()
    page.get_by_label("Status").select_option("Any status")
    expect(delivery).to_contain_text("Test")
    page.get_by_role("button", name="New secret").click()
    answer_dialog(page, "Create")
    expect(page.locator("#shown-once")).not_to_have_text(secret)
    expect(page.get_by_text("also signed with the previous secret")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("This destination is paused")).to_be_visible()
    expect(page.get_by_role("button", name="Send test")).to_have_count(0)
    page.get_by_role("button", name="Delete").click()
    answer_dialog(page, "Delete")
    page.wait_for_url("**/settings/destinations")
    expect(page.get_by_role("link", name=HOOK)).to_have_count(0)


def test_a_user_is_added_signs_in_and_is_disabled_and_deleted(
    window: BrowserWindow, open_window: WindowFactory, installation: SharedInstallation
) -> None:
    page = window.open("/settings/users")
    page.get_by_label("Name", exact=True).fill("newcomer")
    page.get_by_role("button", name="Add user").click()
    row = page.locator("tbody tr", has_text="newcomer")
    expect(row).to_contain_text("never")
    page.get_by_role("button", name="Create a sign-in link for newcomer").click()
    link = page.locator("#shown-once").inner_text()
    assert re.search(r"secret=\S+$", link)
    window.screenshot("settings-users")
    for size in (WIDE, {"width": 1000, "height": 800}, NARROW):
        page.set_viewport_size(size)  # type: ignore[arg-type]  # a TypedDict of these two
        for action in ("Create a sign-in link for", "Disable", "Delete"):
            assert is_within_its_box(page.get_by_role("button", name=f"{action} newcomer"))
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    guest = open_window()
    guest.page.goto(link)
    guest.page.get_by_role("button", name="Sign in").click()
    guest.page.wait_for_url("**/agents")
    page = window.open("/settings/users")
    assert link not in page.content()
    page.get_by_role("button", name="Disable newcomer").click()
    answer_dialog(page, "Disable")
    expect(row).to_contain_text("disabled")
    guest.expected.append("401")
    guest.open("/settings")
    expect(guest.page).to_have_url(f"{installation.base}/sign-in")
    page.get_by_role("button", name="Enable newcomer").click()
    expect(page.get_by_role("button", name="Disable newcomer")).to_be_visible()
    page.get_by_role("button", name="Delete newcomer").click()
    answer_dialog(page, "Delete")
    expect(row).to_have_count(0)


def test_the_owner_can_be_neither_disabled_nor_deleted(window: BrowserWindow) -> None:
    page = window.open("/settings/users")
    owner = page.locator("tbody tr", has_text="owner").first
    expect(owner.get_by_role("button", name=re.compile("Delete|Disable"))).to_have_count(0)


def test_a_taken_or_invalid_user_name_is_reported_next_to_its_field(window: BrowserWindow) -> None:
    window.expected += ["409", "422"]
    page = window.open("/settings/users")
    name = page.get_by_label("Name", exact=True)
    name.fill("owner")
    page.get_by_role("button", name="Add user").click()
    expect(page.locator("#name-error")).to_contain_text("already exists")
    expect(name).to_have_value("owner")
    name.fill("Not A Name")
    page.get_by_role("button", name="Add user").click()
    expect(page.locator("#name-error")).to_contain_text("lowercase letters")


def test_the_theme_is_chosen(window: BrowserWindow) -> None:
    page = window.open("/settings")
    root = page.locator("html")
    page.get_by_role("button", name="Dark", exact=True).click()
    expect(root).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(root).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("button", name="Dark", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    page.get_by_role("button", name="System", exact=True).click()
    page.reload()
    assert root.get_attribute("data-theme") is None
    # The switch names the theme that it leads to, also when the system's changes.
    switch = page.locator("[data-theme-switch]")
    for scheme, other in (("dark", "Light theme"), ("light", "Dark theme")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of its literals
        expect(switch).to_have_text(other)


def test_signing_in_begins_with_one_field_and_works_without_scripts(
    installation: SharedInstallation, browser: Browser
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{installation.base}/agents")
    expect(page).to_have_url(f"{installation.base}/sign-in")
    expect(page.get_by_text("vigil sign-in-link", exact=True)).to_be_visible()
    page.get_by_role("button", name="Send sign-in link").click()
    expect(page.locator("#user-error")).to_have_text("Enter the name or email address.")
    page.get_by_label("Name or email address").fill("nobody-of-that-name")
    page.get_by_role("button", name="Send sign-in link").click()
    expect(page.get_by_role("status")).to_contain_text("If this user exists")
    page.goto(f"{installation.base}/api/v1/sign-in/link?secret={'A' * 43}")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="This link no longer works")).to_be_visible()
    page.get_by_role("link", name="Request another link").click()
    expect(page.get_by_label("Name or email address")).to_be_visible()
    context.close()


def test_an_error_page_says_what_to_do_and_links_on(window: BrowserWindow) -> None:
    window.expected += ["404"]
    page = window.open("/settings")
    page.evaluate("location.assign('/agents/no-such-agent')")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_text("There is no agent 'no-such-agent'.")).to_be_visible()
    window.screenshot("error-not-found")
    expect(page.get_by_role("link", name="Operate")).to_be_visible()
    page.get_by_role("link", name="Back").click()
    page.wait_for_url("**/settings")
