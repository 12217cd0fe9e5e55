"""Evidence of nodes and edges in canonical form: the span of a page, and its claims."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute

from shared.database.tables import Evidence, Source
from shared.database.transaction import Transaction
from shared.graph.scope import GraphScope
from shared.tools import Json
from tests.support.spelling import Names, moment, one_json, plain


@dataclass(frozen=True)
class EvidenceRow:
    url: str
    sha256: bytes
    first_byte: int
    end_byte: int
    claims: Json
    valid_from: datetime | None
    valid_to: datetime | None
    is_retracted: bool

    def content(self, names: Names) -> Json:
        return {
            "url": self.url,
            "sha256": self.sha256.hex(),
            "bytes": [self.first_byte, self.end_byte],
            "claims": plain(self.claims, names),
            "valid_from": moment(self.valid_from),
            "valid_to": moment(self.valid_to),
            "retracted": self.is_retracted,
        }


def evidence_json(rows: Iterable[EvidenceRow], names: Names) -> list[Json]:
    return sorted((row.content(names) for row in rows), key=one_json)


async def load_evidence(
    session: Transaction,
    scope: GraphScope,
    id_column: InstrumentedAttribute[UUID | None],
    ids: Sequence[UUID],
) -> dict[UUID, list[EvidenceRow]]:
    """Evidence by the id of its node or edge."""
    rows = await session.execute(
        select(
            func.coalesce(Evidence.node_id, Evidence.edge_id),
            Source.url,
            Source.sha256,
            Evidence.first_byte,
            Evidence.end_byte,
            Evidence.claims,
            Evidence.valid_from,
            Evidence.valid_to,
            Source.retracted_at.is_not(None),
        )
        .join(Source, Source.id == Evidence.source_id)
        .where(Evidence.agent_id == scope.owned_agent_id(), id_column.in_(ids))
    )
    evidence: dict[UUID, list[EvidenceRow]] = {}
    for row in rows:
        evidence.setdefault(row[0], []).append(EvidenceRow(*row[1:]))
    return evidence
