"""Metrics and dashboards read PostgreSQL under roles that may read just that."""

import json
from math import isnan

import psycopg
import pytest

from services.scheduler import app as scheduler
from tests.support.observability.scraping import scrape, value
from tests.support.paths import ROOT
from tests.support.secured_installation import SecuredInstallation

DASHBOARD = ROOT / "deploy" / "grafana" / "dashboards" / "agent.json"
MACROS = {
    "$__timeFrom()": "'2026-01-01T00:00:00Z'",
    "$__timeTo()": "'2026-01-02T00:00:00Z'",
    "$agent": "00000000-0000-0000-0000-000000000001",
}


def queries() -> dict[str, str]:
    dashboard = json.loads(DASHBOARD.read_text())
    found = {
        panel["title"]: target["rawSql"]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }
    return found | {each["label"]: each["query"] for each in dashboard["templating"]["list"]}


async def test_the_scheduler_may_read_what_it_measures(installation: SecuredInstallation) -> None:
    service = scheduler.build(installation.settings("scheduler"))
    samples = await scrape(service)
    await service.database.close()
    assert value(samples, "vigil_database_up") == 1
    assert value(samples, "vigil_dead_letters") == 0
    assert (value(samples, "vigil_database_size_bytes") or 0) > 0
    assert isnan(value(samples, "vigil_budget_left_usd") or 0)


@pytest.mark.parametrize("title", queries())
def test_the_operator_may_read_what_the_dashboard_shows(
    installation: SecuredInstallation, title: str
) -> None:
    query = queries()[title]
    for macro, text in MACROS.items():
        query = query.replace(macro, text)
    with installation.connect("operator") as connection:
        assert connection.execute(query.encode()).fetchall() == []


def test_the_dashboards_role_cannot_read_what_agents_know(
    installation: SecuredInstallation,
) -> None:
    with installation.connect("operator") as connection:
        for table in ("graph_nodes", "messages", "sources", "llm_interactions", "users"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select * from {table}".encode())
