"""What nodes and edges rest on, as the canonical form has it: which bytes of which page say what."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from shared.database.tables import Evidence, Source
from shared.graph.scope import GraphScope
from shared.tools import Json
from tests.support.spelling import Names, moment, one_json, plain


@dataclass(frozen=True)
class Ground:
    url: str
    sha256: bytes
    first_byte: int
    end_byte: int
    claims: Json
    valid_from: datetime | None
    valid_to: datetime | None
    is_retracted: bool

    def told(self, names: Names) -> Json:
        return {
            "url": self.url,
            "sha256": self.sha256.hex(),
            "bytes": [self.first_byte, self.end_byte],
            "claims": plain(self.claims, names),
            "valid_from": moment(self.valid_from),
            "valid_to": moment(self.valid_to),
            "retracted": self.is_retracted,
        }


def listed(grounds: Iterable[Ground], names: Names) -> list[Json]:
    return sorted((ground.told(names) for ground in grounds), key=one_json)


async def grounds_of(
    session: AsyncSession,
    scope: GraphScope,
    thing: InstrumentedAttribute[UUID | None],
    things: Sequence[UUID],
) -> dict[UUID, list[Ground]]:
    """By the node or edge that they bear out."""
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
        .where(Evidence.agent_id == scope.owned_agent_id(), thing.in_(things))
    )
    found: dict[UUID, list[Ground]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(Ground(*row[1:]))
    return found
