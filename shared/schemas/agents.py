"""Schemas of prompts, configurations and types."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from shared.schemas.base import (
    ConfigurationResponse,
    InteractionResponse,
    ResponseModel,
    RunningCall,
)
from shared.schemas.graph import EdgeTypeDetails, NodeTypeDetails

PromptedPhase = Literal[
    "observer",
    "knowledge_acquisition",
    "graph_construction",
    "analysis_generation",
    "advice_generation",
    "conversation",
]
"""The phases that have a system prompt per agent."""


class PromptResponse(ResponseModel):
    """The system prompt of one phase, from `version` on until the phase's next version."""

    phase: PromptedPhase
    version: int
    """0 if it was written before the history was recorded."""
    made_by: str | None
    """`configuration` or `owner`; None if it was written before the history was recorded."""
    created_at: datetime | None
    prompt: str


class PromptsResponse(ResponseModel):
    """The agent's current prompts; empty until it is configured."""

    version: int
    items: list[PromptResponse]


class ConfigurationDetails(ConfigurationResponse):
    mission: str
    """The mission that the prompts and types are derived from."""
    keep: list[PromptedPhase]
    interaction: InteractionResponse | None
    """The phase run; None before the model's first response."""
    running_calls: list[RunningCall] = Field(default_factory=list)


class TypesResponse(ResponseModel):
    """All types of an agent's graph, by name."""

    node_types: list[NodeTypeDetails]
    edge_types: list[EdgeTypeDetails]
