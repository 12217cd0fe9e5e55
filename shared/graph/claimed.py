"""What was ever claimed of many nodes or edges, and which source each claim is of, read at once."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.alike import Alike
from shared.graph.proof.fold import Claim
from shared.store.tables import Evidence, Source


@dataclass(frozen=True)
class Claimed:
    """All that was claimed of one thing, retracted or not."""

    claims: list[Claim] = field(default_factory=list)
    source_of: dict[UUID, UUID] = field(default_factory=dict)
    """By evidence."""
    retracted_at: dict[UUID, datetime] = field(default_factory=dict)
    """By source; those that are believed are left out."""

    @property
    def evidence(self) -> list[UUID]:
        return [claim.evidence_id for claim in self.claims]

    @property
    def is_unsupported(self) -> bool:
        """Whether it has evidence, and all of that is retracted."""
        return bool(self.claims) and all(claim.is_retracted for claim in self.claims)


async def lock(session: AsyncSession, kind: Alike, things: Collection[UUID]) -> Sequence[UUID]:
    """In the order of their ids, so that nobody deadlocks; who locks nodes and edges locks nodes first.

    Those that are there: the others were merged into something else, and nothing can be said of them by these ids.
    """
    table = kind.table
    # Whoever writes evidence of a thing holds its key by then, two at once both do: neither may wait for that.
    found = await session.scalars(
        select(table.id)
        .where(table.id.in_(things))
        .order_by(table.id)
        .with_for_update(key_share=True)
    )
    return found.all()


async def claimed_of(
    session: AsyncSession, kind: Alike, things: Collection[UUID]
) -> dict[UUID, Claimed]:
    """By thing, those of which nothing was claimed too. They must be locked where something follows from it."""
    found: defaultdict[UUID, Claimed] = defaultdict(Claimed)
    of = kind.evidence_of
    for thing, evidence, source, values, as_of, learned_at, retracted_at in await session.execute(
        select(
            of,
            Evidence.id,
            Evidence.source_id,
            Evidence.claims,
            Evidence.as_of,
            Evidence.learned_at,
            Source.retracted_at,
        )
        .join(Source, Source.id == Evidence.source_id)
        .where(of.in_(things))
    ):
        assert thing is not None
        known = found[thing]
        is_retracted = retracted_at is not None
        known.claims.append(Claim(evidence, values, as_of, learned_at, is_retracted))
        known.source_of[evidence] = source
        if retracted_at is not None:
            known.retracted_at[source] = retracted_at
    return {thing: found[thing] for thing in things}
