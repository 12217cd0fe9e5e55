"""Schemas of dead letters and transfers."""

from datetime import datetime
from uuid import UUID

from pydantic import ConfigDict

from shared.schemas.base import View


class LetterStepView(View):
    """The step of a dead letter."""

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
    """A message that could not be handled, or the request of a step that failed for good."""

    id: UUID
    actor: str
    subject: str
    code: str
    error: str
    attempts: int
    created_at: datetime
    stored_at: datetime
    """When it last failed."""
    retry_requested_at: datetime | None
    """None if no retry is pending."""
    refusal: str | None
    """Why it cannot be retried now, and what to do instead."""
    step: LetterStepView | None


class DeadLetterDetails(DeadLetterView):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    payload: bytes
    """In JSON: URL-safe base64."""
    text: str | None
    """The payload, if it is text."""


class ExportedFile(View):
    file: str
    format: str
    bytes: int


class ImportedCounts(View):
    node_types: int
    edge_types: int
    sources: int
    nodes: int
    """Including conclusions."""
    edges: int
    evidence: int


class ImportedAgent(View):
    agent_id: UUID
    name: str
    counts: ImportedCounts
