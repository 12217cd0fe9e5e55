"""Doubts: conclusions that rest on something that a retraction has changed, or that a reading of its quote has refused."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from shared.database import ids
from shared.database.statements import CompiledStatement, Row, json_text, uuid_array
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.entity_resolution import redirects
from shared.graph.projection import EDGES, NODES, ElementClaims, ElementKind, load_claims
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import (
    UNKNOWN_DATE,
    Claim,
    current_claims,
    upcoming_claims,
)
from shared.graph.provenance.verdicts import IS_REFUSING_SQL
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.schemas.provenance import DoubtResponse
from shared.workflow.iterations import database_time

_BATCH_SIZE: Final = 1000
"""Elements per statement."""
IS_SPLIT_SQL: Final = "undone_at = made_at"
"""SQL condition on a row of `graph_merges`: it is a split."""


def invalidated_by(
    claims: Iterable[Claim],
    source_of: Mapping[UUID, UUID],
    retracted_at: Mapping[UUID, datetime],
    now: datetime,
) -> set[UUID]:
    """The retracted sources without which other values would win or be upcoming, or that leave no active source behind.

    A retracted source whose values other sources confirm invalidates nothing, whenever they were found. If its value
    was superseded only after the retraction, it still invalidates: conclusions from that value were never confirmed.
    `source_of` maps evidence to source, `retracted_at` source to retraction time. The result depends on the arguments
    only, so an undone retraction leaves no trace.
    """
    claim_list = list(claims)
    if all(claim.is_retracted for claim in claim_list):
        return {source_of[claim.evidence_id] for claim in claim_list}
    winners = _shown_values(claim_list, now)
    invalidating = set[UUID]()
    for source in {source_of[claim.evidence_id] for claim in claim_list if claim.is_retracted}:
        known = (claim for claim in claim_list if claim.learned_at <= retracted_at[source])
        earlier = [replace(claim, is_retracted=False) for claim in known]
        if any(
            source_of[claim.evidence_id] == source and not _is_among(winners, place, claim, now)
            for place, claim in _shown_values(earlier, min(retracted_at[source], now)).items()
        ):
            invalidating.add(source)
    return invalidating


_Place = tuple[str, datetime | None]
"""A property, and when the value begins; None for the present one."""


def _shown_values(claims: Sequence[Claim], now: datetime) -> dict[_Place, Claim]:
    """The claims on which conclusions at that moment can rest: those of the present values, and of upcoming ones."""
    shown: dict[_Place, Claim] = {
        (name, claim.since): claim
        for name, begins in upcoming_claims(claims, now).items()
        for claim in begins
    }
    return shown | {(name, None): claim for name, claim in current_claims(claims, now).items()}


def _is_among(shown: Mapping[_Place, Claim], place: _Place, claim: Claim, now: datetime) -> bool:
    """Whether the value of the claim is shown in that place; an upcoming one whose day has come, as the present one."""
    name, begins = place
    found = shown.get((name, None if begins is None or begins <= now else begins))
    return found is not None and integrity.is_equal(found.values[name], claim.values[name])


def refused_sources(
    claims: Sequence[Claim], source_of: Mapping[UUID, UUID], now: datetime
) -> Mapping[UUID, Sequence[UUID]]:
    """The evidence with a refused value that would be present or upcoming, and that nothing else says now, by source; all
    refused evidence, if the existence of the element was refused.

    Evidence that is retracted, superseded, or confirmed by other evidence leaves no doubt.
    """
    supporting = [claim for claim in claims if not claim.is_retracted]
    found: defaultdict[UUID, list[UUID]] = defaultdict(list)
    shown = _shown_values(supporting, now)
    is_unsupported = not any(claim.is_active for claim in supporting)
    for number, claim in enumerate(supporting):
        if not claim.refused:
            continue
        accepted = replace(claim, refused=frozenset())
        others = [*supporting[:number], accepted, *supporting[number + 1 :]]
        if is_unsupported or any(
            each is accepted
            and place[0] in claim.refused
            and not _is_among(shown, place, each, now)
            for place, each in _shown_values(others, now).items()
        ):
            found[source_of[claim.evidence_id]].append(claim.evidence_id)
    return found


@dataclass(frozen=True)
class Cause:
    """Which conclusions a source invalidates: by default, those that its retraction concerns."""

    made_before: datetime | None = None
    """The time of a split, which has moved its quotes to another node: conclusions made later do not rest on them."""
    read_at: datetime | None = None
    """When a reading refused it: conclusions that were read later, or with it in the step `read_in`, do not rest on it; nor
    do others that were read, unless they state the refused value.
    """
    read_in: UUID | None = None


Invalidations = Mapping[UUID, Mapping[UUID, Cause]]
"""By node or edge, the sources that invalidate conclusions about it: those that are retracted, refused or split off."""


async def doubted_since(
    transaction: Transaction, conclusions: Collection[UUID]
) -> Mapping[UUID, datetime]:
    """Since when each conclusion is in doubt; those not in doubt are left out."""
    rows = await _DOUBTED_SINCE.rows(transaction, {"ids": uuid_array(conclusions)})
    return {row.conclusion_id: row.since for row in rows}


async def list_doubts(
    transaction: Transaction, conclusions: Collection[UUID]
) -> Mapping[UUID, list[DoubtResponse]]:
    """Why each conclusion is in doubt, the oldest reason first; those not in doubt are left out."""
    rows = await _LIST.rows(transaction, {"ids": uuid_array(conclusions)})
    refusals = await _refusals(
        transaction, {row.source_id for row in rows if row.retracted_at is None}
    )
    splits = await _split_reasons(transaction, {each for row in rows for each in row.elements})
    by_conclusion: defaultdict[UUID, list[DoubtResponse]] = defaultdict(list)
    for row in rows:
        of_source = refusals.get(row.source_id, {})
        refusal = next(
            (each for element_id, each in of_source.items() if element_id in row.elements), None
        )
        split = next(
            (reason for each in row.elements if (reason := splits.get((each, row.source_id)))), None
        )
        cause: Literal["retracted", "contradicted", "not_stated", "split"] = "retracted"
        if row.retracted_at is None:
            is_split = refusal is None and split is not None
            cause = "split" if is_split else refusal.verdict if refusal else "contradicted"
        by_conclusion[row.conclusion_id].append(
            DoubtResponse(
                since=row.since,
                cause=cause,
                source_id=row.source_id,
                url=row.url,
                reason=(refusal.reason if refusal else "") or row.retraction_reason or split or "",
                elements=sorted(set(row.elements)),
            )
        )
    return by_conclusion


async def _split_reasons(
    transaction: Transaction, elements: Collection[UUID]
) -> Mapping[tuple[UUID, UUID], str]:
    """By element and source, why a split has moved the source's quotes to another node."""
    if not elements:
        return {}
    rows = await _SPLITS.rows(transaction, {"ids": uuid_array(elements)})
    return {(row.element_id, row.source_id): row.reason for row in rows}


async def _refusals(
    transaction: Transaction, sources: Collection[UUID]
) -> Mapping[UUID, Mapping[UUID, Row]]:
    """By source and element, the first refusal of what it says: a contradiction before what is not stated."""
    if not sources:
        return {}
    rows = await _REFUSALS.rows(transaction, {"ids": uuid_array(sources)})
    refusals: defaultdict[UUID, dict[UUID, Row]] = defaultdict(dict)
    for row in rows:
        refusals[row.source_id].setdefault(row.element_id, row)
    return refusals


async def reevaluate_doubts(
    transaction: Transaction,
    claims_by_element: Mapping[UUID, ElementClaims],
    *,
    because_of: UUID | None = None,
    are_separated: bool = False,
) -> Collection[UUID]:
    """Update the doubts about these nodes and edges to match their claims; returns the doubts that it opened.

    `because_of` is the source whose retraction is being propagated, if any: every conclusion made so far may rest on
    it. `are_separated` says that a merge of them was undone: what supported one of them may be with the other now, so every
    conclusion about one that has only retracted sources is in doubt.
    """
    invalidations = await _invalidations(transaction, claims_by_element)
    await _close_unfounded(transaction, claims_by_element, invalidations)
    rows = [
        {
            **_doubt_row(conclusion, element_id, source),
            **asdict(cause),
            "is_alone": are_separated
            and all(claim.is_retracted for claim in claims_by_element[element_id].claims),
        }
        for element_id, conclusion in await _citing_conclusions(transaction, invalidations)
        for source, cause in invalidations[element_id].items()
    ]
    if not rows:
        return ()
    opened = await _OPEN.rows(transaction, {"rows": json_text(rows), "because_of": because_of})
    return [row.id for row in opened]


async def transfer_doubts(
    transaction: Transaction, new_ids: Mapping[UUID, Collection[UUID]]
) -> None:
    """Move doubts to the elements that replace the old ones, with their original date.

    `new_ids` has the new ids by old id. If there are several, a doubt moves to those that its conclusion cites.
    """
    open_doubts = await _LOCK_OF_ELEMENTS.rows(transaction, {"ids": uuid_array(new_ids)})
    several = {new_id for each in new_ids.values() if len(each) > 1 for new_id in each}
    citing = set(await _citing_conclusions(transaction, several))
    rows = [
        {**_doubt_row(doubt.conclusion_id, new_id, doubt.source_id), "since": doubt.since}
        for doubt in open_doubts
        for new_id in new_ids[doubt.element_id]
        if new_id not in several or (new_id, doubt.conclusion_id) in citing
    ]
    if rows:
        await _TRANSFER.run(transaction, {"rows": json_text(rows)})
        await _CLOSE.run(transaction, {"ids": uuid_array(doubt.id for doubt in open_doubts)})


async def reopen_doubts(
    transaction: Transaction, element_ids: Collection[UUID], since: datetime
) -> None:
    """Reopen doubts that were closed since then by a transfer. The caller re-evaluates the elements afterwards."""
    await _REOPEN.run(transaction, {"ids": uuid_array(element_ids), "since": since})


async def resolve_doubts(
    transaction: Transaction, claims_by_element: Mapping[UUID, ElementClaims]
) -> list[UUID]:
    """Close unfounded doubts without opening new ones; returns the ids of the closed doubts.

    Conclusions made after the retraction do not rest on the retracted sources.
    """
    closed_ids, remaining = await _close_unfounded(
        transaction, claims_by_element, await _invalidations(transaction, claims_by_element)
    )
    await _MARK_EVALUATED.run(transaction, {"ids": uuid_array(remaining)})
    return closed_ids


async def pending_doubts(
    transaction: Transaction, scope: GraphScope
) -> list[tuple[UUID, UUID, UUID, datetime]]:
    """Conclusion, element, source and time of its retraction, of the doubts that pending retractions will open."""
    sources = await _DUE_SOURCES.rows(transaction, scope.sql_params)
    retracted = {row.id: row.retracted_at for row in sources}
    pending: list[tuple[UUID, UUID, UUID, datetime]] = []
    for kind in (NODES, EDGES) if retracted else ():
        element_ids = await _elements_of(transaction, scope, kind, retracted)
        for start in range(0, len(element_ids), _BATCH_SIZE):
            claims = await load_claims(transaction, kind, element_ids[start : start + _BATCH_SIZE])
            invalidations = _retractions(claims)
            pending += [
                (conclusion_id, element_id, source_id, retracted[source_id])
                for element_id, conclusion_id in await _citing_conclusions(
                    transaction, invalidations
                )
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
    transaction: Transaction, scope: GraphScope, sources: Collection[UUID]
) -> ForeseenRetraction:
    """What the retraction of these sources would do, as its propagation would find it now."""
    now = await database_time(transaction)
    unsupported, invalidated = 0, set[UUID]()
    for kind in (NODES, EDGES):
        element_ids = await _elements_of(transaction, scope, kind, sources)
        for start in range(0, len(element_ids), _BATCH_SIZE):
            batch = element_ids[start : start + _BATCH_SIZE]
            for element_id, known in (await load_claims(transaction, kind, batch)).items():
                claims = [
                    replace(claim, is_retracted=True)
                    if known.source_of[claim.evidence_id] in sources
                    else claim
                    for claim in known.claims
                ]
                retracted_at = {**known.retracted_at, **dict.fromkeys(sources, now)}
                invalidating = invalidated_by(claims, known.source_of, retracted_at, known.now)
                if invalidating & set(sources):
                    invalidated.add(element_id)
                    unsupported += all(claim.is_retracted for claim in claims)
    conclusion_ids = {each for _, each in await _citing_conclusions(transaction, invalidated)}
    rows = await _TYPES.rows(transaction, {"ids": uuid_array(conclusion_ids)})
    counts = Counter(row.type for row in rows)
    return ForeseenRetraction(
        unsupported,
        len(invalidated) - unsupported,
        counts[ANALYSIS_TYPE],
        counts[ADVICE_TYPE],
    )


async def close_doubts(transaction: Transaction, sources: Collection[UUID]) -> None:
    """Close all doubts caused by the retraction of these sources."""
    open_doubts = await _LOCK_OF_RESTORED.rows(transaction, {"ids": uuid_array(sources)})
    await _CLOSE.run(transaction, {"ids": uuid_array(doubt.id for doubt in open_doubts)})


async def _close_unfounded(
    transaction: Transaction, element_ids: Collection[UUID], invalidations: Invalidations
) -> tuple[list[UUID], list[UUID]]:
    """Close the doubts without cause; returns the ids of the closed and of the remaining doubts."""
    closed_ids: list[UUID] = []
    remaining: list[UUID] = []
    for doubt in await _LOCK_OF_ELEMENTS.rows(transaction, {"ids": uuid_array(element_ids)}):
        is_founded = doubt.source_id in invalidations.get(doubt.element_id, ())
        (remaining if is_founded else closed_ids).append(doubt.id)
    await _CLOSE.run(transaction, {"ids": uuid_array(closed_ids)})
    return closed_ids, remaining


async def _elements_of(
    transaction: Transaction, scope: GraphScope, kind: ElementKind, sources: Collection[UUID]
) -> list[UUID]:
    """The nodes or edges with evidence from these sources."""
    params = {**scope.sql_params, "ids": uuid_array(sources)}
    return [row.id for row in await _ELEMENTS_OF[kind].rows(transaction, params)]


_DOUBTED_SINCE: Final = CompiledStatement("""
    select conclusion_id, min(since) as since from doubts
    where conclusion_id = any(cast(:ids as uuid[])) and resolved_at is null group by conclusion_id
""")
_LIST: Final = CompiledStatement("""
    select conclusion_id, min(since) as since, sources.id as source_id, url, retracted_at, retraction_reason,
      array_agg(element_id) as elements
    from doubts join sources on sources.id = doubts.source_id
    where conclusion_id = any(cast(:ids as uuid[])) and resolved_at is null
    group by conclusion_id, sources.id order by conclusion_id, 2, sources.id
""")
_REFUSALS: Final = CompiledStatement(f"""
    select source_id, coalesce(node_id, edge_id) as element_id, verdict, reason
    from evidence join entailment_verdicts on evidence_id = evidence.id
    where source_id = any(cast(:ids as uuid[])) and {IS_REFUSING_SQL}
    order by verdict, entailment_verdicts.created_at, evidence.id
""")
# When evidence was refused last.
_REFUSED_AT: Final = CompiledStatement(f"""
    select distinct on (evidence_id) evidence_id, created_at, step_id from entailment_verdicts
    where evidence_id = any(cast(:ids as uuid[])) and {IS_REFUSING_SQL}
    order by evidence_id, created_at desc
""")
# A split is stored as a merge that was undone when it was made. Its doubts end if the two nodes are merged again.
_SPLITS: Final = CompiledStatement(f"""
    select element_id, source_id, made_at, reason
    from graph_merges as split cross join lateral (
      select kept_id as element_id, cast(moved -> 'row' ->> 'source_id' as uuid) as source_id
      from jsonb_array_elements(journal -> 'evidence') as moved
      union
      select cast(case when cast(edge ->> 'stays' as boolean) then edge -> 'row' ->> 'id' else edge ->> 'to' end as uuid),
        cast(moved -> 'row' ->> 'source_id' as uuid)
      from jsonb_array_elements(journal -> 'edges') as edge
      cross join jsonb_array_elements(edge -> 'evidence') as moved
    ) as left_behind
    where agent_id in (
        select agent_id from graph_nodes where id = any(cast(:ids as uuid[]))
        union select agent_id from graph_edges where id = any(cast(:ids as uuid[])))
      and {IS_SPLIT_SQL} and element_id = any(cast(:ids as uuid[]))
      and not exists (
        select from graph_redirects as redirect where redirect.agent_id = split.agent_id
          and redirect.merged_id = split.merged_id and redirect.kept_id = split.kept_id)
    order by made_at
""")
_DUE_SOURCES: Final = CompiledStatement(f"""
    select id, retracted_at from sources
    where agent_id = {OWNED_AGENT_ID_SQL} and retracted_at is not null
      and exists (select from retracted_sources where source_id = sources.id and is_due)
""")
_ELEMENTS_OF: Final = {
    kind: CompiledStatement(f"""
    select distinct {kind.evidence_column} as id from evidence
    where source_id = any(cast(:ids as uuid[])) and {kind.evidence_column} is not null and {IS_OWNED_SQL}
    """)
    for kind in (NODES, EDGES)
}
_TYPES: Final = CompiledStatement(
    "select type from graph_nodes where id = any(cast(:ids as uuid[]))"
)


def _lock_statement(condition: str) -> CompiledStatement:
    """Loads open doubts and locks them in id order; every change of several doubts starts with this."""
    return CompiledStatement(f"""
    select id, conclusion_id, element_id, source_id, since from doubts
    where {condition} and resolved_at is null order by id for update
    """)


_LOCK_OF_ELEMENTS: Final = _lock_statement("element_id = any(cast(:ids as uuid[]))")
_LOCK_OF_RESTORED: Final = _lock_statement(f"""source_id = any(cast(:ids as uuid[])) and not exists (
      select from evidence join entailment_verdicts on evidence_id = evidence.id
      where evidence.source_id = doubts.source_id and coalesce(node_id, edge_id) = doubts.element_id
        and {IS_REFUSING_SQL})""")
_REOPEN: Final = CompiledStatement("""
    update doubts set resolved_at = null
    where element_id = any(cast(:ids as uuid[])) and resolved_at >= :since
""")
_CLOSE: Final = CompiledStatement(
    "update doubts set resolved_at = clock_timestamp() where id = any(cast(:ids as uuid[]))"
)
_MARK_EVALUATED: Final = CompiledStatement(
    "update doubts set evaluated_at = clock_timestamp() where id = any(cast(:ids as uuid[]))"
)
# A conclusion relies on a source if it was made before the retraction or its propagation, or was in doubt because of the
# source before; or if a merge that is undone had given it another source; or if it was not read since a reading has refused
# the source. A doubt that is open is not changed.
# A conclusion that was read was held against the quotes themselves: a refused value concerns it if it, or what it rests on,
# states the value. It is known by its place, because a merge changes the ids of evidence.
_STATES_REFUSED_SQL: Final = f"""
    exists (
      with recursive below (id) as (
        select graph_nodes.id
        union
        select cited_id from citations join below on conclusion_id = below.id
      )
      select from conclusion_proofs as proof
      join evidence on evidence.source_id = proof.source_id and evidence.first_byte = proof.first_byte
        and evidence.end_byte = proof.end_byte and input.element_id in (evidence.node_id, evidence.edge_id)
      join entailment_verdicts as found on found.evidence_id = evidence.id and {IS_REFUSING_SQL}
      where proof.conclusion_id in (select id from below) and proof.source_id = input.source_id
        and (found.property is null or found.property in ('', proof.property)))
"""
_OPEN: Final = CompiledStatement(f"""
    insert into doubts (id, conclusion_id, element_id, source_id, since)
    select input.id, input.conclusion_id, input.element_id, input.source_id, clock_timestamp()
    from jsonb_to_recordset(cast(:rows as jsonb)) as input (
      id uuid, conclusion_id uuid, element_id uuid, source_id uuid, made_before timestamptz, read_at timestamptz,
      read_in uuid, is_alone boolean)
    join graph_nodes on graph_nodes.id = input.conclusion_id
    join sources on sources.id = input.source_id
    where case
      when made_before is not null then graph_nodes.created_at < made_before
      when read_at is not null then graph_nodes.created_at < read_at and graph_nodes.step_id is distinct from read_in
          and {_STATES_REFUSED_SQL}
        or not exists (select from conclusion_verdicts where conclusion_id = graph_nodes.id)
      else graph_nodes.created_at < sources.retracted_at
        or input.is_alone
        or sources.id = cast(:because_of as uuid)
        or exists (select from doubts earlier where earlier.id = input.id) end
    order by input.id
    on conflict (id) do update set since = excluded.since, resolved_at = null, evaluated_at = null
    where doubts.resolved_at is not null
    returning id
""")
_TRANSFER: Final = CompiledStatement("""
    insert into doubts (id, conclusion_id, element_id, source_id, since)
    select distinct on (input.id) input.*
    from jsonb_to_recordset(cast(:rows as jsonb)) as input (
      id uuid, conclusion_id uuid, element_id uuid, source_id uuid, since timestamptz)
    order by input.id, input.since
    on conflict (id) do update set since = excluded.since, resolved_at = null, evaluated_at = null
    where doubts.resolved_at is not null
""")
_CITING: Final = CompiledStatement("""
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
        element_id: invalidated_by(claims.claims, claims.source_of, claims.retracted_at, claims.now)
        for element_id, claims in claims_by_element.items()
    }
    return {
        element_id: dict.fromkeys(sources, Cause())
        for element_id, sources in by_element.items()
        if sources
    }


async def _invalidations(
    transaction: Transaction, claims_by_element: Mapping[UUID, ElementClaims]
) -> Invalidations:
    """By retracted and refused sources, and by splits."""
    invalidations: defaultdict[UUID, dict[UUID, Cause]] = defaultdict(dict)
    for split in await _SPLITS.rows(transaction, {"ids": uuid_array(claims_by_element)}):
        invalidations[split.element_id][split.source_id] = Cause(made_before=split.made_at)
    for element_id, sources in _retractions(claims_by_element).items():
        invalidations[element_id] |= sources
    refused = {
        element_id: refused_sources(each.claims, each.source_of, each.now)
        for element_id, each in claims_by_element.items()
    }
    of_refused = {each for sources in refused.values() for ids in sources.values() for each in ids}
    rows = (
        await _REFUSED_AT.rows(transaction, {"ids": uuid_array(of_refused)}) if of_refused else ()
    )
    causes = {row.evidence_id: Cause(read_at=row.created_at, read_in=row.step_id) for row in rows}
    for element_id, sources_of_element in refused.items():
        for source_id, evidence in sources_of_element.items():
            found = [causes[each] for each in evidence if each in causes]
            latest = max(found, key=lambda each: each.read_at or UNKNOWN_DATE, default=Cause())
            invalidations[element_id][source_id] = latest
    return {element_id: sources for element_id, sources in invalidations.items() if sources}


async def _citing_conclusions(
    transaction: Transaction, element_ids: Collection[UUID]
) -> list[tuple[UUID, UUID]]:
    """Pairs of element and citing conclusion.

    A conclusion can cite the element directly, through another conclusion, or by the id of an element merged into it.
    """
    if not element_ids:
        return []
    earlier_ids = await redirects.earlier_ids(transaction, element_ids)
    current_ids = {
        old_id: element_id for element_id, old_ids in earlier_ids.items() for old_id in old_ids
    }
    rows = await _CITING.rows(transaction, {"ids": uuid_array([*element_ids, *current_ids])})
    return sorted(
        {(current_ids.get(row.element_id, row.element_id), row.conclusion_id) for row in rows}
    )
