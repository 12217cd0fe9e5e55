"""The pages of costs."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

import psycopg
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import AGENT, SharedInstallation
from tests.support.browser.browser_window import NARROW, WIDE, BrowserWindow

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def bars(page: Page) -> list[list[Decimal]]:
    """The values of the bars, newest first."""
    rows = page.locator("[data-day]").evaluate_all("rows => rows.map(row => row.dataset.values)")
    return [[Decimal(value) for value in row.split(",")] for row in rows]


@contextmanager
def priced_differently(installation: SharedInstallation, cost: str) -> Iterator[None]:
    """While it lasts, each call of the agent costs `cost`, an SQL expression."""
    with psycopg.connect(installation.vigil.running.database_url, autocommit=True) as connection:
        connection.execute("create table costs_before as select id, cost_usd from calls")
        try:
            connection.execute(
                f"update calls set cost_usd = {cost} where agent_id = %s", (installation.agent_id,)
            )
            yield
        finally:
            connection.execute(
                "update calls set cost_usd = costs_before.cost_usd, assumed_usd = 0 from costs_before"
                " where costs_before.id = calls.id"
            )
            connection.execute("drop table costs_before")


def test_costs_equal_those_of_the_cli(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    with priced_differently(installation, "0.0125"):
        costs = installation.vigil.json("costs", AGENT, "--by", "phase")
        page = window.open(f"/costs?agent={installation.agent_id}")
        total = Decimal(page.locator("[data-total]").get_attribute("data-total") or "")
        assert total == Decimal(str(costs["totals"]["cost_usd"])) > 0
        days = bars(page)
        assert len(days) == 30
        assert sum(map(sum, days)) == total
        phases = page.locator("section", has=page.get_by_role("heading", name="By phase"))
        expect(phases.locator("tbody tr")).to_have_count(len(costs["groups"]))
        expect(page.locator("[data-plot] canvas")).to_be_visible()
        window.screenshot("costs-of-agent")


def test_total_costs_link_to_each_agent(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/costs")
    expect(page.locator("[data-plot] canvas")).to_be_visible()
    window.screenshot("costs")
    page.get_by_role("link", name="7 days").click()
    expect(page.locator("[data-day]")).to_have_count(7)
    shares = page.get_by_role("region", name="By agent")
    shares.get_by_role("link", name=AGENT, exact=True).click()
    expect(page).to_have_url(f"{installation.base}/costs?agent={installation.agent_id}")


def test_a_bar_tells_its_figures_and_the_table_the_same(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open(f"/costs?agent={installation.agent_id}")
    names = page.locator("[data-series]").all_text_contents()
    plot = page.locator("[data-plot] .u-over")
    box = plot.bounding_box()
    assert box is not None
    # The newest bar is the last of 30.
    page.mouse.move(box["x"] + box["width"] * 29.5 / 30, box["y"] + box["height"] / 2)
    tip = page.locator(".plot-tip")
    expect(tip).to_be_visible()
    for name in page.locator(".plot-tip-name").all_inner_texts():
        assert name in {*names, "Total", "Daily budget"}
    page.get_by_text("Show the figures as a table").click()
    shown = page.locator("[data-day]").first
    total = shown.locator("td").last.inner_text()
    expect(tip.locator(".plot-tip-line", has_text="Total")).to_contain_text(total)
    window.check_accessibility()


def test_without_a_bill_tokens_are_shown_and_no_dollars(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    with priced_differently(installation, "0"):
        page = window.open(f"/costs?agent={installation.agent_id}")
        expect(page.get_by_role("heading", name="Tokens", exact=True)).to_be_visible()
        for part in ("spending", "by-phase"):
            expect(page.locator(f"section[aria-labelledby={part}]")).not_to_contain_text("$")
        expect(page.locator(".tile", has_text="Today so far")).to_contain_text("tokens")
        window.screenshot("costs-not-billed")


def test_calls_without_a_price_and_assumed_costs_are_explained(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    with priced_differently(installation, "case when phase = 'observer' then null else 0.01 end"):
        with psycopg.connect(
            installation.vigil.running.database_url, autocommit=True
        ) as connection:
            connection.execute(
                "update calls set assumed_usd = 0.25 where agent_id = %s", (installation.agent_id,)
            )
        page = window.open(f"/costs?agent={installation.agent_id}&days=7")
        expect(page.locator("[data-series]").last).to_have_text("Assumed")
        page.get_by_text("is assumed and").click()
        expect(page.locator("#unknown-fold")).to_contain_text("got no usable answer")
        expect(page.locator("#unknown-fold")).to_contain_text("Without a price")
        expect(page.locator("section[aria-labelledby=by-phase]")).to_contain_text("+ up to $")
        window.screenshot("costs-assumed")


def test_costs_fit_a_phone(window: BrowserWindow, installation: SharedInstallation) -> None:
    page = window.page
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
    for path in ("/costs", f"/costs?agent={installation.agent_id}"):
        window.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
