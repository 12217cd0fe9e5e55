"""What is spent, and what may be."""

from collections.abc import Iterable
from datetime import date

from cli.client.connection import Connection, agent_path
from shared.store.reading.cost_shapes import AllowanceView, BudgetView, CostsBy, CostsView
from shared.store.reading.shapes import (
    CallsView,
)
from shared.store.reading.work_shapes import CallView


class Spending(Connection):
    def calls(self, reference: str) -> CallsView:
        return self._ask(CallsView, "GET", f"{agent_path(reference)}/calls/summary")

    def calls_made(self, reference: str) -> Iterable[CallView]:
        """One by one, the newest first."""
        return self._pages(CallView, f"{agent_path(reference)}/calls", None)

    def costs(self, reference: str | None, *, by: CostsBy, since: date | None) -> CostsView:
        """Of one agent or all, with every group."""
        path = "/costs" if reference is None else f"{agent_path(reference)}/costs"
        params = {"by": by} | ({} if since is None else {"since": since.isoformat()})
        told = self._ask(CostsView, "GET", path, params=params)
        while told.next is not None:
            more = self._ask(CostsView, "GET", path, params={**params, "cursor": told.next})
            told = more.model_copy(update={"groups": [*told.groups, *more.groups]})
        return told

    def budget(self, reference: str) -> BudgetView:
        return self._ask(BudgetView, "GET", f"{agent_path(reference)}/budget")

    def set_budget(self, reference: str, caps: dict[str, float | int | None]) -> BudgetView:
        return self._ask(BudgetView, "PUT", f"{agent_path(reference)}/budget", json=caps)

    def installation_budget(self) -> AllowanceView:
        return self._ask(AllowanceView, "GET", "/budget")

    def set_installation_budget(self, caps: dict[str, float | int | None]) -> AllowanceView:
        return self._ask(AllowanceView, "PUT", "/budget", json=caps)
