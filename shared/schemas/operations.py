"""Schemas of dead letters and transfers."""

from datetime import datetime
from uuid import UUID

from pydantic import ConfigDict

from shared.schemas.base import View


class LetterStepView(View):
    """The step that a dead letter is about."""

    id: UUID
    kind: str
    index: int
    status: str
    iteration_id: UUID
    iteration_number: int
    iteration_status: str
    agent_id: UUID
    agent_name: str


class DeadLetterView(View):
    """A message that could not be handled; of a step that failed for good, the message that asked for it."""

    id: UUID
    actor: str
    subject: str
    code: str
    error: str
    attempts: int
    created_at: datetime
    kept_at: datetime
    """When it failed last."""
    retry_requested_at: datetime | None
    """None where no retry is on its way."""
    refusal: str | None
    """Why it cannot be retried now, and what to do instead."""
    step: LetterStepView | None


class DeadLetterDetails(DeadLetterView):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    payload: bytes
    """In JSON: base64, with the letters that stand in addresses."""
    text: str | None
    """The payload, where it is text."""


class ExportedFile(View):
    file: str
    format: str
    bytes: int


class ImportedCounts(View):
    node_types: int
    edge_types: int
    sources: int
    nodes: int
    """Conclusions too."""
    edges: int
    evidence: int


class ImportedAgent(View):
    agent_id: UUID
    name: str
    counts: ImportedCounts
