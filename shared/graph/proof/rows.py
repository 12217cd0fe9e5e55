"""What stands in the tables of the graph, as plain values: what is checked, exported and imported."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from shared.graph.proof import seals

Json = dict[str, Any]


class Row(BaseModel):
    """As JSON: bytes in hex, moments in ISO 8601."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="hex", val_json_bytes="hex"
    )


class SourceRow(Row):
    """Without its text, which can be long."""

    id: UUID
    url: str
    title: str | None
    published: datetime | None
    fetched_at: datetime
    sha256: bytes
    seal: bytes
    retracted_at: datetime | None
    retracted_because: str | None

    def sealed(self, agent_id: UUID) -> bytes:
        """The seal that it should have."""
        return seals.of_source(
            source_id=self.id,
            agent_id=agent_id,
            url=self.url,
            title=self.title,
            published=self.published,
            fetched_at=self.fetched_at,
            text_sha256=self.sha256,
        )


class EvidenceRow(Row):
    id: UUID
    thing_id: UUID
    source_id: UUID
    first_byte: int
    end_byte: int
    quote_sha256: bytes
    claims: Json
    valid_from: datetime | None
    valid_to: datetime | None
    as_of: datetime
    learned_at: datetime
    seal: bytes

    @property
    def says(self) -> str:
        """As its id has it."""
        return seals.canonical([self.claims, self.valid_from, self.valid_to])

    def sealed(self, agent_id: UUID) -> bytes:
        return seals.of_evidence(
            evidence_id=self.id,
            agent_id=agent_id,
            thing_id=self.thing_id,
            source_id=self.source_id,
            first_byte=self.first_byte,
            end_byte=self.end_byte,
            quote_sha256=self.quote_sha256,
            claims=self.claims,
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            as_of=self.as_of,
            learned_at=self.learned_at,
        )


class NodeRow(Row):
    id: UUID
    type: str
    name: str
    properties: Json
    seal: bytes | None
    created_at: datetime
    updated_at: datetime

    def sealed(self, agent_id: UUID, evidence: Sequence[UUID]) -> bytes:
        return seals.of_node(
            node_id=self.id,
            agent_id=agent_id,
            type_name=self.type,
            name=self.name,
            properties=self.properties,
            evidence=evidence,
        )


class EdgeRow(Row):
    id: UUID
    type: str
    source_id: UUID
    target_id: UUID
    properties: Json
    seal: bytes | None
    created_at: datetime
    updated_at: datetime

    def sealed(self, agent_id: UUID, evidence: Sequence[UUID]) -> bytes:
        return seals.of_edge(
            edge_id=self.id,
            agent_id=agent_id,
            type_name=self.type,
            source_id=self.source_id,
            target_id=self.target_id,
            properties=self.properties,
            evidence=evidence,
        )


ThingRow = NodeRow | EdgeRow
