"""Doubts: conclusions that rest on something that a retraction has changed, or that its own quote contradicts."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Row,
    Uuid,
    and_,
    any_,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import load_only

from shared.database import ids
from shared.database.statements import json_text
from shared.database.tables import (
    Doubt,
    EntailmentVerdict,
    Evidence,
    GraphNode,
    RetractedSource,
    Source,
)
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Entailment
from shared.graph.entity_resolution import redirects
from shared.graph.projection import EDGES, NODES, ElementClaims, load_claims
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import Claim, current_claims
from shared.graph.scope import GraphScope
from shared.schemas.provenance import DoubtResponse

_BATCH_SIZE: Final = 1000
"""Elements per statement."""
_IS_CONTRADICTED: Final = EntailmentVerdict.verdict == Entailment.CONTRADICTED


def invalidated_by(
    claims: Iterable[Claim],
    source_of: Mapping[UUID, UUID],
    retracted_at: Mapping[UUID, datetime],
) -> set[UUID]:
    """The retracted sources without which other values would win, or whose retraction leaves no active source.

    A retracted source whose values other sources confirm invalidates nothing, whenever they were found. If its value
    was superseded only after the retraction, it still invalidates: conclusions from that value were never confirmed.
    `source_of` maps evidence to source, `retracted_at` source to retraction time. The result depends on the arguments
    only, so an undone retraction leaves no trace.
    """
    claim_list = list(claims)
    if all(claim.is_retracted for claim in claim_list):
        return {source_of[claim.evidence_id] for claim in claim_list}
    winners = current_claims(claim_list)
    invalidating = set[UUID]()
    for source in {source_of[claim.evidence_id] for claim in claim_list if claim.is_retracted}:
        known = (claim for claim in claim_list if claim.learned_at <= retracted_at[source])
        earlier_winners = current_claims(replace(claim, is_retracted=False) for claim in known)
        if any(
            source_of[claim.evidence_id] == source
            and not (
                name in winners
                and integrity.is_equal(winners[name].values[name], claim.values[name])
            )
            for name, claim in earlier_winners.items()
        ):
            invalidating.add(source)
    return invalidating


def contradicted_sources(
    claims: Sequence[Claim], source_of: Mapping[UUID, UUID], contradicted: Collection[UUID]
) -> set[UUID]:
    """The sources of contradicted evidence that alone supports a current value, or all there is.

    `contradicted` are ids of evidence. Evidence that is retracted, superseded, or confirmed by other evidence leaves no
    doubt.
    """
    active = [claim for claim in claims if not claim.is_retracted]
    remaining = [claim for claim in active if claim.evidence_id not in contradicted]
    if not remaining:
        return {source_of[claim.evidence_id] for claim in active}
    winners, other_winners = current_claims(active), current_claims(remaining)
    return {
        source_of[claim.evidence_id]
        for name, claim in winners.items()
        if claim.evidence_id in contradicted
        and not (
            name in other_winners
            and integrity.is_equal(other_winners[name].values[name], claim.values[name])
        )
    }


Invalidations = Mapping[UUID, Collection[UUID]]
"""By node or edge, the retracted or contradicted sources that invalidate conclusions about it."""


IS_DOUBTED_SQL: Final = (
    "exists (select from doubts where conclusion_id = graph_nodes.id and resolved_at is null)"
)
"""SQL condition: the node is a conclusion in doubt."""


async def doubted_since(
    session: AsyncSession, conclusions: Collection[UUID]
) -> Mapping[UUID, datetime]:
    """Since when each conclusion is in doubt; those not in doubt are left out."""
    rows = await session.execute(
        select(Doubt.conclusion_id, func.min(Doubt.since))
        .where(Doubt.conclusion_id.in_(conclusions), Doubt.resolved_at.is_(None))
        .group_by(Doubt.conclusion_id)
    )
    return {row[0]: row[1] for row in rows}


async def list_doubts(
    session: AsyncSession, conclusions: Collection[UUID]
) -> Mapping[UUID, list[DoubtResponse]]:
    """Why each conclusion is in doubt, the oldest reason first; those not in doubt are left out."""
    since = func.min(Doubt.since)
    rows = (
        await session.execute(
            select(Doubt.conclusion_id, since, Source, func.array_agg(Doubt.element_id))
            .join(Source, Source.id == Doubt.source_id)
            .options(load_only(Source.url, Source.retracted_at, Source.retraction_reason))
            .where(Doubt.conclusion_id.in_(conclusions), Doubt.resolved_at.is_(None))
            .group_by(Doubt.conclusion_id, Source.id)
            .order_by(Doubt.conclusion_id, since, Source.id)
        )
    ).all()
    contradictions = await _contradictions(
        session, {source.id for _, _, source, _ in rows if source.retracted_at is None}
    )
    by_conclusion: defaultdict[UUID, list[DoubtResponse]] = defaultdict(list)
    for conclusion, doubted_at, source, element_ids in rows:
        reasons = contradictions.get(source.id, {})
        contradiction = next(
            (reason for element_id, reason in reasons.items() if element_id in element_ids), None
        )
        by_conclusion[conclusion].append(
            DoubtResponse(
                since=doubted_at,
                cause="retracted" if contradiction is None else "contradicted",
                source_id=source.id,
                url=source.url,
                reason=contradiction or source.retraction_reason or "",
                elements=sorted(set(element_ids)),
            )
        )
    return by_conclusion


async def _contradictions(
    session: AsyncSession, sources: Collection[UUID]
) -> Mapping[UUID, Mapping[UUID, str]]:
    """By source and element, what the first verdict says of contradicted evidence; the first verdicts first."""
    if not sources:
        return {}
    rows = await session.execute(
        select(
            Evidence.source_id,
            func.coalesce(Evidence.node_id, Evidence.edge_id),
            EntailmentVerdict.reason,
        )
        .join(EntailmentVerdict, EntailmentVerdict.evidence_id == Evidence.id)
        .where(Evidence.source_id.in_(sources), _IS_CONTRADICTED)
        .order_by(EntailmentVerdict.created_at, Evidence.id)
    )
    reasons: defaultdict[UUID, dict[UUID, str]] = defaultdict(dict)
    for source_id, element_id, reason in rows:
        reasons[source_id].setdefault(element_id, reason)
    return reasons


async def reevaluate_doubts(
    session: AsyncSession,
    claims_by_element: Mapping[UUID, ElementClaims],
    *,
    because_of: UUID | None = None,
) -> Collection[UUID]:
    """Update the doubts about these nodes and edges to match their claims; returns the doubts that it opened.

    `because_of` is the source whose retraction is being propagated, if any: every conclusion made so far may rest on
    it.
    """
    invalidations = await _invalidations(session, claims_by_element)
    await _close_unfounded(session, claims_by_element, invalidations)
    rows = [
        _doubt_row(conclusion, element_id, source)
        for element_id, conclusion in await _citing_conclusions(session, invalidations)
        for source in invalidations[element_id]
    ]
    if not rows:
        return ()
    opened = await session.execute(_OPEN, {"rows": json_text(rows), "because_of": because_of})
    return opened.scalars().all()


async def transfer_doubts(session: AsyncSession, new_ids: Mapping[UUID, Collection[UUID]]) -> None:
    """Move doubts to the elements that replace the old ones, with their original date.

    `new_ids` has the new ids by old id. If there are several, a doubt moves to those that its conclusion cites.
    """
    open_doubts = await lock_open_doubts(session, Doubt.element_id == any_(uuid_array(new_ids)))
    several = {new_id for each in new_ids.values() if len(each) > 1 for new_id in each}
    citing = set(await _citing_conclusions(session, several))
    rows = [
        {**_doubt_row(doubt.conclusion_id, new_id, doubt.source_id), "since": doubt.since}
        for doubt in open_doubts
        for new_id in new_ids[doubt.element_id]
        if new_id not in several or (new_id, doubt.conclusion_id) in citing
    ]
    if rows:
        await session.execute(_TRANSFER, {"rows": json_text(rows)})
        await session.execute(_CLOSE, {"ids": [doubt.id for doubt in open_doubts]})


async def reopen_doubts(
    session: AsyncSession, element_ids: Collection[UUID], since: datetime
) -> None:
    """Reopen doubts that were closed since then by a transfer. The caller re-evaluates the elements afterwards."""
    is_about_them = Doubt.element_id == any_(uuid_array(element_ids))
    await session.execute(
        update(Doubt)
        .where(is_about_them, Doubt.resolved_at >= since)
        .values(resolved_at=None)
        .execution_options(synchronize_session=False)
    )


async def resolve_doubts(
    session: AsyncSession, claims_by_element: Mapping[UUID, ElementClaims]
) -> list[UUID]:
    """Close unfounded doubts without opening new ones; returns the ids of the closed doubts.

    Conclusions made after the retraction do not rest on the retracted sources.
    """
    closed_ids, remaining = await _close_unfounded(
        session, claims_by_element, await _invalidations(session, claims_by_element)
    )
    await session.execute(_MARK_EVALUATED, {"ids": remaining})
    return closed_ids


async def pending_doubts(
    session: AsyncSession, scope: GraphScope
) -> list[tuple[UUID, UUID, UUID, datetime]]:
    """Conclusion, element, source and time of its retraction, of the doubts that pending retractions will open."""
    is_due = exists().where(RetractedSource.source_id == Source.id, RetractedSource.is_due)
    is_own = Source.agent_id == scope.owned_agent_id()
    sources = await session.execute(select(Source.id, Source.retracted_at).where(is_own, is_due))
    retracted = {source_id: at for source_id, at in sources if at is not None}
    pending: list[tuple[UUID, UUID, UUID, datetime]] = []
    for kind in (NODES, EDGES) if retracted else ():
        is_quoted = Evidence.source_id == any_(uuid_array(retracted))
        found = await session.scalars(select(kind.evidence_column).where(is_quoted).distinct())
        element_ids = [element_id for element_id in found if element_id is not None]
        for start in range(0, len(element_ids), _BATCH_SIZE):
            claims = await load_claims(session, kind, element_ids[start : start + _BATCH_SIZE])
            invalidations = _retractions(claims)
            pending += [
                (conclusion_id, element_id, source_id, retracted[source_id])
                for element_id, conclusion_id in await _citing_conclusions(session, invalidations)
                for source_id in invalidations[element_id]
                if source_id in retracted
            ]
    return pending


@dataclass(frozen=True)
class ForeseenRetraction:
    """What a retraction would do."""

    unsupported: int = 0
    """Nodes and edges that rest on these pages alone."""
    changed: int = 0
    """Nodes and edges of which another value would hold."""
    analyses: int = 0
    advice: int = 0
    """Conclusions that would be in doubt."""


async def foresee_retraction(
    session: AsyncSession, scope: GraphScope, sources: Collection[UUID]
) -> ForeseenRetraction:
    """What the retraction of these sources would do, as its propagation would find it now."""
    now = await session.scalar(select(func.clock_timestamp()))
    assert now is not None
    unsupported, invalidated = 0, set[UUID]()
    for kind in (NODES, EDGES):
        is_quoted = Evidence.source_id == any_(uuid_array(sources))
        is_own = Evidence.agent_id == scope.owned_agent_id()
        found = await session.scalars(
            select(kind.evidence_column).where(is_quoted, is_own).distinct()
        )
        element_ids = [element_id for element_id in found if element_id is not None]
        for start in range(0, len(element_ids), _BATCH_SIZE):
            batch = element_ids[start : start + _BATCH_SIZE]
            for element_id, known in (await load_claims(session, kind, batch)).items():
                claims = [
                    replace(claim, is_retracted=True)
                    if known.source_of[claim.evidence_id] in sources
                    else claim
                    for claim in known.claims
                ]
                retracted_at = {**known.retracted_at, **dict.fromkeys(sources, now)}
                if invalidated_by(claims, known.source_of, retracted_at) & set(sources):
                    invalidated.add(element_id)
                    unsupported += all(claim.is_retracted for claim in claims)
    conclusion_ids = {each for _, each in await _citing_conclusions(session, invalidated)}
    types = await session.scalars(
        select(GraphNode.type).where(GraphNode.id == any_(uuid_array(conclusion_ids)))
    )
    counts = Counter(types)
    return ForeseenRetraction(
        unsupported,
        len(invalidated) - unsupported,
        counts[ANALYSIS_TYPE],
        counts[ADVICE_TYPE],
    )


async def close_doubts(session: AsyncSession, sources: Collection[UUID]) -> None:
    """Close all doubts caused by the retraction of these sources."""
    is_contradicted = exists().where(
        EntailmentVerdict.evidence_id == Evidence.id,
        Evidence.source_id == Doubt.source_id,
        func.coalesce(Evidence.node_id, Evidence.edge_id) == Doubt.element_id,
        _IS_CONTRADICTED,
    )
    open_doubts = await lock_open_doubts(
        session, and_(Doubt.source_id == any_(uuid_array(sources)), ~is_contradicted)
    )
    await session.execute(_CLOSE, {"ids": [doubt.id for doubt in open_doubts]})


async def lock_open_doubts(
    session: AsyncSession, where: ColumnElement[bool]
) -> Sequence[Row[UUID, UUID, UUID, UUID, datetime]]:
    """Load the open doubts and lock them in id order; every change of several doubts starts with this."""
    rows = await session.execute(
        select(Doubt.id, Doubt.conclusion_id, Doubt.element_id, Doubt.source_id, Doubt.since)
        .where(where, Doubt.resolved_at.is_(None))
        .order_by(Doubt.id)
        .with_for_update()
    )
    return rows.all()


async def _close_unfounded(
    session: AsyncSession, element_ids: Collection[UUID], invalidations: Invalidations
) -> tuple[list[UUID], list[UUID]]:
    """Close the doubts without cause; returns the ids of the closed and of the remaining doubts."""
    closed_ids: list[UUID] = []
    remaining: list[UUID] = []
    for doubt in await lock_open_doubts(session, Doubt.element_id == any_(uuid_array(element_ids))):
        is_founded = doubt.source_id in invalidations.get(doubt.element_id, ())
        (remaining if is_founded else closed_ids).append(doubt.id)
    await session.execute(_CLOSE, {"ids": closed_ids})
    return closed_ids, remaining


def uuid_array(uuids: Collection[UUID]) -> ColumnElement[Any]:
    """A single array parameter, since a statement accepts a limited number of parameters."""
    return literal(list(uuids), ARRAY(Uuid()))


_CLOSE: Final = text(
    "update doubts set resolved_at = clock_timestamp() where id = any(cast(:ids as uuid[]))"
)
_MARK_EVALUATED: Final = text(
    "update doubts set evaluated_at = clock_timestamp() where id = any(cast(:ids as uuid[]))"
)
# A conclusion relies on a source if it was made before the retraction or its propagation, or was in doubt because of the
# source before; or on one that is contradicted and not retracted. A doubt that is open is not changed.
_OPEN: Final = text("""
    insert into doubts (id, conclusion_id, element_id, source_id, since)
    select input.id, input.conclusion_id, input.element_id, input.source_id, clock_timestamp()
    from jsonb_to_recordset(cast(:rows as jsonb)) as input (
      id uuid, conclusion_id uuid, element_id uuid, source_id uuid)
    join graph_nodes on graph_nodes.id = input.conclusion_id
    join sources on sources.id = input.source_id
    where graph_nodes.created_at < sources.retracted_at
      or sources.retracted_at is null
      or sources.id = cast(:because_of as uuid)
      or exists (select from doubts earlier where earlier.id = input.id)
    order by input.id
    on conflict (id) do update set since = excluded.since, resolved_at = null, evaluated_at = null
    where doubts.resolved_at is not null
    returning id
""")
_TRANSFER: Final = text("""
    insert into doubts (id, conclusion_id, element_id, source_id, since)
    select distinct on (input.id) input.*
    from jsonb_to_recordset(cast(:rows as jsonb)) as input (
      id uuid, conclusion_id uuid, element_id uuid, source_id uuid, since timestamptz)
    order by input.id, input.since
    on conflict (id) do update set since = excluded.since, resolved_at = null, evaluated_at = null
    where doubts.resolved_at is not null
""")
_CITING: Final = text("""
    with recursive citing (element_id, conclusion_id) as (
      select cited_id, conclusion_id from citations where cited_id = any(cast(:ids as uuid[]))
      union
      select citing.element_id, citations.conclusion_id
      from citing join citations on citations.cited_id = citing.conclusion_id
    )
    select element_id, conclusion_id from citing
""")


def _doubt_row(conclusion_id: UUID, element_id: UUID, source_id: UUID) -> dict[str, Any]:
    return {
        "id": ids.doubt_id(conclusion_id, element_id, source_id),
        "conclusion_id": conclusion_id,
        "element_id": element_id,
        "source_id": source_id,
    }


def _retractions(claims_by_element: Mapping[UUID, ElementClaims]) -> Invalidations:
    """By retracted sources alone."""
    by_element = {
        element_id: invalidated_by(claims.claims, claims.source_of, claims.retracted_at)
        for element_id, claims in claims_by_element.items()
    }
    return {element_id: sources for element_id, sources in by_element.items() if sources}


async def _invalidations(
    session: AsyncSession, claims_by_element: Mapping[UUID, ElementClaims]
) -> Invalidations:
    """By retracted and by contradicted sources."""
    element_ids = uuid_array(claims_by_element)
    rows = await session.execute(
        select(func.coalesce(Evidence.node_id, Evidence.edge_id), Evidence.id)
        .join(EntailmentVerdict, EntailmentVerdict.evidence_id == Evidence.id)
        .where(
            or_(Evidence.node_id == any_(element_ids), Evidence.edge_id == any_(element_ids)),
            _IS_CONTRADICTED,
        )
    )
    contradicted: defaultdict[UUID, set[UUID]] = defaultdict(set)
    for element_id, evidence_id in rows:
        contradicted[element_id].add(evidence_id)
    invalidations: dict[UUID, Collection[UUID]] = dict(_retractions(claims_by_element))
    for element_id, evidence_ids in contradicted.items():
        claims = claims_by_element[element_id]
        if sources := contradicted_sources(claims.claims, claims.source_of, evidence_ids):
            invalidations[element_id] = {*invalidations.get(element_id, ()), *sources}
    return invalidations


async def _citing_conclusions(
    session: AsyncSession, element_ids: Collection[UUID]
) -> list[tuple[UUID, UUID]]:
    """Pairs of element and citing conclusion.

    A conclusion can cite the element directly, through another conclusion, or by the id of an element merged into it.
    """
    if not element_ids:
        return []
    earlier_ids = await redirects.earlier_ids(session, element_ids)
    current_ids = {
        old_id: element_id for element_id, old_ids in earlier_ids.items() for old_id in old_ids
    }
    rows = await session.execute(_CITING, {"ids": [*element_ids, *current_ids]})
    return sorted(
        {(current_ids.get(row.element_id, row.element_id), row.conclusion_id) for row in rows}
    )
