"""What people get to see of how an agent is made, as frozen models."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from shared.schemas.base import ConfigurationView, InteractionView, RunningCall, View
from shared.schemas.graph import EdgeTypeDetails, NodeTypeDetails

PromptedPhase = Literal[
    "observer",
    "knowledge_acquisition",
    "graph_construction",
    "analysis_generation",
    "advice_generation",
    "conversation",
]
"""The phases that have a system prompt of the agent's."""


class PromptView(View):
    """The system prompt of one phase, as it was from `version` on; in a history, until the phase's next."""

    phase: PromptedPhase
    version: int
    """0 where it was written before there was a history."""
    made_by: str | None
    """`configuration` or `owner`; None where it was written before there was a history."""
    created_at: datetime | None
    prompt: str


class PromptsView(View):
    """The prompts that the agent has now; none until it is configured."""

    version: int
    items: list[PromptView]


class ConfigurationDetails(ConfigurationView):
    mission: str
    """What the prompts and types were to be made of."""
    keep: list[PromptedPhase]
    interaction: InteractionView | None
    """What was said to the model, and what it answered; None before the first word."""
    running_calls: list[RunningCall] = Field(default_factory=list)


class TypesView(View):
    """All types of an agent's graph, by name."""

    node_types: list[NodeTypeDetails]
    edge_types: list[EdgeTypeDetails]
