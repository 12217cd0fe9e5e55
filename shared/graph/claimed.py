"""What was ever claimed of many nodes or edges, and which source each claim is of, read at once."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from shared.graph.proof.fold import Claim
from shared.store.tables import Evidence, Source


@dataclass(frozen=True)
class Claimed:
    """All that was claimed of one thing, retracted or not."""

    claims: list[Claim] = field(default_factory=list)
    source_of: dict[UUID, UUID] = field(default_factory=dict)
    """By evidence."""

    @property
    def evidence(self) -> list[UUID]:
        return [claim.evidence_id for claim in self.claims]

    @property
    def is_unsupported(self) -> bool:
        """Whether it has evidence, and all of that is retracted."""
        return bool(self.claims) and all(claim.is_retracted for claim in self.claims)


async def claimed_of(
    session: AsyncSession, of: InstrumentedAttribute[UUID | None], things: Collection[UUID]
) -> dict[UUID, Claimed]:
    """By thing, those of which nothing was claimed too. `of` is `Evidence.node_id` or `Evidence.edge_id`.

    The things' rows must be locked where something follows from it.
    """
    found: defaultdict[UUID, Claimed] = defaultdict(Claimed)
    for thing, evidence, source, values, as_of, learned_at, is_retracted in await session.execute(
        select(
            of,
            Evidence.id,
            Evidence.source_id,
            Evidence.claims,
            Evidence.as_of,
            Evidence.learned_at,
            Source.retracted_at.is_not(None),
        )
        .join(Source, Source.id == Evidence.source_id)
        .where(of.in_(things))
    ):
        if thing is not None:
            known = found[thing]
            known.claims.append(Claim(evidence, values, as_of, learned_at, is_retracted))
            known.source_of[evidence] = source
    return {thing: found[thing] for thing in things}
