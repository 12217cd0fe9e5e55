"""What `vigil budget` asks of the api."""

from dataclasses import dataclass
from typing import Self

from cli.client.client import Client
from cli.errors import BadInputError
from shared.schemas.costs import AllowanceView, BudgetView


@dataclass(frozen=True)
class Wish:
    """Whose budget, the installation's where no agent is named, and what is to become of it; None leaves a cap alone."""

    agent: str | None
    usd: float | None = None
    calls: int | None = None
    none: bool = False

    @classmethod
    def of(
        cls,
        agent: str | None,
        *,
        of_installation: bool,
        usd: float | None,
        calls: int | None,
        none: bool,
    ) -> Self:
        """Raises BadInputError where it is not clear what is wanted."""
        if (agent is None) != of_installation:
            raise BadInputError("name an agent, or give --installation: one of the two")
        if none and (usd is not None or calls is not None):
            raise BadInputError("--none takes both caps away; leave --usd and --calls out")
        return cls(agent, usd, calls, none)

    @property
    def is_to_change(self) -> bool:
        return self.none or self.usd is not None or self.calls is not None

    def caps(self, present: AllowanceView) -> dict[str, float | int | None]:
        """As the api takes them."""
        if self.none:
            return {"usd_per_day": None, "calls_per_day": None}
        usd = present.usd_per_day if self.usd is None else self.usd
        calls = present.calls_per_day if self.calls is None else self.calls
        return {"usd_per_day": usd, "calls_per_day": calls}


def told_budget(client: Client, wish: Wish) -> BudgetView | AllowanceView:
    """The budget as it is then."""
    if wish.agent is None:
        present = client.installation_budget()
        return client.set_installation_budget(wish.caps(present)) if wish.is_to_change else present
    found = client.budget(wish.agent)
    if not wish.is_to_change:
        return found
    return client.set_budget(str(found.agent_id), wish.caps(found.allowance))
