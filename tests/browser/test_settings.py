"""Settings: tokens, sessions, notification destinations, the budget and users."""

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SharedInstallation, WindowFactory
from tests.support.browser.browser_window import BrowserWindow

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOOK = "https://hooks.example.org/of-a-test"


def accept_dialogs(page: Page) -> None:
    page.on("dialog", lambda dialog: dialog.accept())


def request_status(installation: SharedInstallation, token: str) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return httpx.get(f"{installation.base}/api/v1/me", headers=headers).status_code


def test_a_token_is_shown_once_copied_used_and_revoked(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/settings/tokens")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    accept_dialogs(page)
    page.get_by_label("What is it for?").fill("Nightly backup")
    page.get_by_label("Good for").select_option("7 days")
    page.get_by_role("button", name="Make the token").click()
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
    expect(page.get_by_text("Nightly backup")).to_have_count(0)
    assert request_status(installation, token) == 401


def test_an_invalid_token_request_is_rejected_with_a_message(window: BrowserWindow) -> None:
    window.expected.append("422")
    page = window.open("/settings/tokens")
    page.get_by_label("What is it for?").fill("Nothing")
    for checkbox in page.get_by_role("checkbox").all():
        checkbox.uncheck()
    # A lifetime that the form does not offer.
    page.locator("#token-days").evaluate(
        "select => { select.options[0].value = '0'; select.value = '0'; }"
    )
    page.get_by_role("button", name="Make the token").click()
    expect(page.get_by_text("expires_in_days")).to_be_visible()


def test_other_browsers_are_signed_out(
    window: BrowserWindow, open_window: WindowFactory, installation: SharedInstallation
) -> None:
    other = open_window()
    other.page.goto(installation.link())
    other.page.get_by_role("button", name="Sign in").click()
    other.page.wait_for_url("**/agents")
    page = window.open("/settings")
    accept_dialogs(page)
    expect(page.get_by_text("this one")).to_have_count(1)
    window.screenshot("settings")
    page.get_by_role("button", name="Sign out all others").click()
    expect(page.get_by_role("button", name="Sign out all others")).to_have_count(0)
    other.open("/settings")
    expect(other.page).to_have_url(f"{installation.base}/sign-in")
    page = window.open("/settings")
    expect(page.get_by_text("this one")).to_be_visible()


def test_the_budget_of_the_installation_is_set_and_removed(window: BrowserWindow) -> None:
    page = window.open("/settings")
    amount, calls = page.get_by_label("USD a day"), page.get_by_label("Calls a day")
    amount.fill("1234.5")
    calls.fill("99999")
    page.get_by_role("button", name="Set the budget").click()
    page.wait_for_url("**/settings#budget")
    expect(amount).to_have_value("1234.5")
    expect(page.locator("#budget")).to_contain_text("left")
    amount.fill("")
    calls.fill("")
    page.get_by_role("button", name="Set the budget").click()
    expect(page.locator("#budget")).to_contain_text("no cap")
    expect(amount).to_have_value("")


def test_a_webhook_is_created_tested_rekeyed_paused_and_deleted(window: BrowserWindow) -> None:
    page = window.open("/settings/destinations")
    accept_dialogs(page)
    page.get_by_label("Where to").fill(HOOK)
    page.get_by_role("button", name="Send there from now on").click()
    secret = page.locator("#shown-once").inner_text()
    assert secret.startswith("whsec_")
    window.open("/settings/destinations")
    assert secret not in page.content()
    window.screenshot("settings-destinations")
    page.get_by_role("link", name=HOOK).click()
    assert secret not in page.content()
    page.get_by_role("button", name="Send a test").click()
    delivery = page.locator("#deliveries li")
    expect(delivery).to_contain_text("a test")
    # Without a reload: the host name cannot be resolved.
    expect(delivery.locator(".fault")).to_be_visible(timeout=30_000)
    window.screenshot("settings-destination")
    page.get_by_label("Status").select_option("delivered")
    expect(page.get_by_text("None that are delivered")).to_be_visible()
    page.get_by_label("Status").select_option("Any status")
    expect(delivery).to_contain_text("a test")
    page.get_by_role("button", name="New secret").click()
    expect(page.locator("#shown-once")).not_to_have_text(secret)
    expect(page.get_by_text("The secret before it signs too")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("It is paused")).to_be_visible()
    expect(page.get_by_role("button", name="Send a test")).to_have_count(0)
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/settings/destinations")
    expect(page.get_by_role("link", name=HOOK)).to_have_count(0)


def test_an_invalid_url_is_rejected_with_a_message(window: BrowserWindow) -> None:
    window.expected.append("422")
    page = window.open("/settings/destinations")
    page.get_by_label("Where to").fill("javascript:alert(1)")
    page.get_by_role("button", name="Send there from now on").click()
    expect(page.get_by_role("heading", name="Something is not as it must be")).to_be_visible()


def test_a_user_is_added_signs_in_and_is_disabled_and_deleted(
    window: BrowserWindow, open_window: WindowFactory, installation: SharedInstallation
) -> None:
    page = window.open("/settings/users")
    accept_dialogs(page)
    page.get_by_label("Name", exact=True).fill("newcomer")
    page.get_by_role("button", name="Add the user").click()
    row = page.locator(".lines li", has_text="newcomer")
    expect(row).to_contain_text("never signed in")
    page.get_by_role("button", name="Sign-in link for newcomer").click()
    link = page.locator("#shown-once").inner_text()
    assert re.search(r"secret=\S+$", link)
    window.screenshot("settings-users")
    guest = open_window()
    guest.page.goto(link)
    guest.page.get_by_role("button", name="Sign in").click()
    guest.page.wait_for_url("**/agents")
    page = window.open("/settings/users")
    assert link not in page.content()
    page.get_by_role("button", name="Disable newcomer").click()
    expect(row).to_contain_text("disabled")
    guest.expected.append("401")
    guest.open("/settings")
    expect(guest.page).to_have_url(f"{installation.base}/sign-in")
    page.get_by_role("button", name="Enable newcomer").click()
    expect(page.get_by_role("button", name="Disable newcomer")).to_be_visible()
    page.get_by_role("button", name="Delete newcomer").click()
    expect(row).to_have_count(0)


def test_the_owner_can_be_neither_disabled_nor_deleted(window: BrowserWindow) -> None:
    page = window.open("/settings/users")
    owner = page.locator(".lines li", has_text="owner").first
    expect(owner.get_by_role("button", name=re.compile("Delete|Disable"))).to_have_count(0)
