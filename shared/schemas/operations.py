"""Schemas of dead letters and transfers."""

from datetime import datetime
from uuid import UUID

from pydantic import ConfigDict, Field

from shared.schemas.base import ProviderOutage, ResponseModel


class DeadLetterStep(ResponseModel):
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


class DeadLetterResponse(ResponseModel):
    """A message that could not be handled, or the request of a step that failed for good."""

    id: UUID
    service: str
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
    step: DeadLetterStep | None
    title: str = ""
    """What failed, in words. Empty, as are the next two, from a server before 0.4.0."""
    cause: str = ""
    advice: str = ""
    """What to do."""


class DeadLetterDetails(DeadLetterResponse):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    payload: bytes
    """In JSON: URL-safe base64."""
    text: str | None
    """The payload, if it is text."""


class ServiceLoadResponse(ResponseModel):
    """The load of one service. Numbers of its queue are None if it has none, or while the bus is unavailable."""

    service: str
    """The name of the service."""
    replicas: int
    """Processes with a connection to the database."""
    lag: int | None
    """Messages not delivered yet."""
    in_flight: int | None
    """Messages delivered and not acknowledged yet."""
    waiting_replicas: int | None
    """Replicas that wait for a message: those with a free slot."""
    delivered: int | None
    """Deliveries since the consumer was created; two readings give a rate."""
    leases: int
    lapsed_leases: int
    """Leases that were not renewed in time."""
    workers: int
    """Workers that hold a lease."""


class ServiceLoadsResponse(ResponseModel):
    """The load of every service at one moment."""

    measured_at: datetime
    bus_fault: str | None
    """Why the bus is unavailable; None if it is available."""
    services: list[ServiceLoadResponse]
    outages: list[ProviderOutage] = Field(default_factory=list)
    """Providers that are unavailable or limit requests."""


class RetainedTable(ResponseModel):
    name: str
    rows: int
    """As PostgreSQL's statistics count them."""
    bytes: int
    """On disk, with indexes and space that is used again."""


class RetainedKind(ResponseModel):
    """What is deleted when it is old, and what the scheduler has deleted of it."""

    kind: str
    """A `RetentionKind`."""
    label: str
    contents: str
    """What belongs to it, in words."""
    is_known: bool
    """False until a scheduler has looked at it for the first time."""
    days: float | None
    """The age after which it is deleted; None: never."""
    max_bytes: int | None
    """The size at which the oldest is deleted before its time; None: none."""
    bytes: int | None
    """What the rows took up when the newest pass ended, without indexes and free space; None: unless there is a limit."""
    tables: list[RetainedTable]
    oldest_at: datetime | None
    """The time of the oldest that was there when the newest pass ended."""
    pruned_at: datetime | None
    """When something was last deleted."""
    last_rows: int
    """How much the newest pass has deleted."""
    all_rows: int
    """How much was ever deleted."""
    ended_at: datetime | None
    """When the newest pass ended."""
    next_at: datetime | None
    """When the next pass is due; None: never."""


class RetentionResponse(ResponseModel):
    kinds: list[RetainedKind]
    kept: list[RetainedTable]
    """Tables that grow with what agents know and have spent, of which nothing is deleted because of its age."""


class ExportedFile(ResponseModel):
    file: str
    format: str
    bytes: int


class ImportedCounts(ResponseModel):
    node_types: int
    edge_types: int
    sources: int
    nodes: int
    """Including conclusions."""
    edges: int
    evidence: int


class ImportedAgent(ResponseModel):
    agent_id: UUID
    name: str
    counts: ImportedCounts
