"""The columns of an agent that the workers of its steps need."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Final, NamedTuple

from shared.workflow.agent_clock import AgentClock


class AgentRow(NamedTuple):
    """An agent as a worker loads it with its step. It has a prompt for each phase."""

    mission: str
    models: Mapping[str, str]
    advice_from_one_analysis: bool
    actions: Mapping[str, str]
    verification_usd_per_day: Decimal | None
    entailment_share: float
    preferred_domains: Sequence[str]
    barred_domains: Sequence[str]
    corpus: str | None
    archive_date: date | None
    conversation_system_prompt: str
    observer_system_prompt: str
    knowledge_acquisition_system_prompt: str
    graph_construction_system_prompt: str
    analysis_generation_system_prompt: str
    advice_generation_system_prompt: str
    loaded_at: datetime
    """By the database's clock."""

    @property
    def clock(self) -> AgentClock:
        """The agent's clock when it was loaded."""
        return AgentClock(self.loaded_at, self.archive_date)


AGENT_COLUMNS: Final = ", ".join(
    f"agents.{name}" if name != "loaded_at" else "clock_timestamp()" for name in AgentRow._fields
)
"""The values of an AgentRow, in order, for a statement that reads the table `agents`."""
