"""What one comes in by, where one's inbox is sent, what the installation may spend, and who uses it."""

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Known, Opener
from tests.support.browser.watched import Watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOOK = "https://hooks.example.org/of-a-test"


def always_yes(page: Page) -> None:
    page.on("dialog", lambda dialog: dialog.accept())


def allows(known: Known, token: str) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return httpx.get(f"{known.base}/api/v1/me", headers=headers).status_code


def test_a_token_is_shown_once_copied_used_and_revoked(window: Watched, known: Known) -> None:
    page = window.open("/settings/tokens")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    always_yes(page)
    page.get_by_label("What is it for?").fill("Nightly backup")
    page.get_by_label("Good for").select_option("7 days")
    page.get_by_role("button", name="Make the token").click()
    token = page.locator("#shown-once").inner_text()
    assert token.startswith("vgl_")
    assert allows(known, token) == 200
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == token
    window.shoot("settings-tokens")
    page = window.open("/settings/tokens")
    assert token not in page.content()
    page.get_by_role("button", name="Revoke Nightly backup").click()
    expect(page.get_by_text("Nightly backup")).to_have_count(0)
    assert allows(known, token) == 401


def test_a_token_that_says_nothing_is_refused_in_words(window: Watched) -> None:
    window.expected.append("422")
    page = window.open("/settings/tokens")
    page.get_by_label("What is it for?").fill("Nothing")
    for each in page.get_by_role("checkbox").all():
        each.uncheck()
    # As a program might send it: no life that anybody offered.
    page.locator("#token-days").evaluate(
        "each => { each.options[0].value = '0'; each.value = '0'; }"
    )
    page.get_by_role("button", name="Make the token").click()
    expect(page.get_by_text("expires_in_days")).to_be_visible()


def test_other_browsers_are_signed_out(window: Watched, another: Opener, known: Known) -> None:
    other = another()
    other.page.goto(known.link())
    other.page.get_by_role("button", name="Sign in").click()
    other.page.wait_for_url("**/agents")
    page = window.open("/settings")
    always_yes(page)
    expect(page.get_by_text("this one")).to_have_count(1)
    window.shoot("settings")
    page.get_by_role("button", name="Sign out all others").click()
    expect(page.get_by_role("button", name="Sign out all others")).to_have_count(0)
    other.open("/settings")
    expect(other.page).to_have_url(f"{known.base}/sign-in")
    page = window.open("/settings")
    expect(page.get_by_text("this one")).to_be_visible()


def test_the_budget_of_all_is_set_and_lifted(window: Watched) -> None:
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


def test_a_webhook_is_made_tested_given_a_new_secret_paused_and_deleted(window: Watched) -> None:
    page = window.open("/settings/destinations")
    always_yes(page)
    page.get_by_label("Where to").fill(HOOK)
    page.get_by_role("button", name="Send there from now on").click()
    secret = page.locator("#shown-once").inner_text()
    assert secret.startswith("whsec_")
    window.open("/settings/destinations")
    assert secret not in page.content()
    window.shoot("settings-destinations")
    page.get_by_role("link", name=HOOK).click()
    assert secret not in page.content()
    page.get_by_role("button", name="Send a test").click()
    delivery = page.locator("#deliveries li")
    expect(delivery).to_contain_text("a test")
    # By itself: no such host is found from here.
    expect(delivery.locator(".fault")).to_be_visible(timeout=30_000)
    window.shoot("settings-destination")
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


def test_what_is_no_address_is_refused_in_words(window: Watched) -> None:
    window.expected.append("422")
    page = window.open("/settings/destinations")
    page.get_by_label("Where to").fill("javascript:alert(1)")
    page.get_by_role("button", name="Send there from now on").click()
    expect(page.get_by_role("heading", name="Something is not as it must be")).to_be_visible()


def test_a_user_is_added_let_in_disabled_and_deleted(
    window: Watched, another: Opener, known: Known
) -> None:
    page = window.open("/settings/users")
    always_yes(page)
    page.get_by_label("Name", exact=True).fill("newcomer")
    page.get_by_role("button", name="Add the user").click()
    line = page.locator(".lines li", has_text="newcomer")
    expect(line).to_contain_text("never signed in")
    page.get_by_role("button", name="Sign-in link for newcomer").click()
    link = page.locator("#shown-once").inner_text()
    assert re.search(r"secret=\S+$", link)
    window.shoot("settings-users")
    guest = another()
    guest.page.goto(link)
    guest.page.get_by_role("button", name="Sign in").click()
    guest.page.wait_for_url("**/agents")
    page = window.open("/settings/users")
    assert link not in page.content()
    page.get_by_role("button", name="Disable newcomer").click()
    expect(line).to_contain_text("disabled")
    guest.expected.append("401")
    guest.open("/settings")
    expect(guest.page).to_have_url(f"{known.base}/sign-in")
    page.get_by_role("button", name="Enable newcomer").click()
    expect(page.get_by_role("button", name="Disable newcomer")).to_be_visible()
    page.get_by_role("button", name="Delete newcomer").click()
    expect(line).to_have_count(0)


def test_the_owner_cannot_be_got_rid_of(window: Watched) -> None:
    page = window.open("/settings/users")
    owner = page.locator(".lines li", has_text="owner").first
    expect(owner.get_by_role("button", name=re.compile("Delete|Disable"))).to_have_count(0)
