"""Positions in the database: loads, stores and ends them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID

from shared.database import ids, locks
from shared.database.statements import (
    Batch,
    BoundQuery,
    CompiledStatement,
    Executor,
    PendingResult,
    uuid_array,
)
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE
from shared.graph.conclusions import subjects
from shared.graph.conclusions.basis import basis_query
from shared.graph.conclusions.citation_index import cited_ids
from shared.graph.conclusions.citations import without_citations
from shared.graph.conclusions.commitments import stored_date
from shared.graph.conclusions.positions import (
    WAS_EARLIER,
    Position,
    Standing,
    contradicting,
    judge,
    position_line,
    standing,
)
from shared.graph.conclusions.related import ties_query
from shared.graph.conclusions.subjects import MARKET_ACTIONS, SubjectNode, Ties
from shared.graph.entity_resolution.redirects import IS_MERGED_AWAY_SQL, MAX_CHAIN_LENGTH
from shared.graph.prompt_format import byte_length, truncate_to_budget
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.schemas.base import PositionResponse, SubjectResponse
from shared.tools import Json
from shared.workflow.agent_clock import AgentClock

_COLUMNS_SQL: Final = """
  advice_id, agent_id, subject, confidence, horizon, stated_at, confirmations, ended_at, replaced_by, reason
"""
_POSITIONS: Final = CompiledStatement(f"""
with recursive known as (
  select {_COLUMNS_SQL} from positions
  where ended_at is null and agent_id in (
    select id from agents where id = any(cast(:agents as uuid[])) and (owner_id = :of_owner) is true)
  union
  select {_COLUMNS_SQL} from positions
  where advice_id = any(cast(:ids as uuid[])) and (agent_id in (
    select id from agents where id = any(cast(:agents as uuid[])) and owner_id = :of_owner)) is true
), moves (agent_id, origin, id, length) as (
  select agent_id, unnest(subject), unnest(subject), 0 from known
  union
  select moves.agent_id, moves.origin, move.kept_id, length + 1
  from moves join graph_redirects as move on move.agent_id = moves.agent_id and move.merged_id = moves.id
  where {IS_MERGED_AWAY_SQL} and length < {MAX_CHAIN_LENGTH}
), present as (
  select distinct on (agent_id, origin) agent_id, origin, id from moves order by agent_id, origin, length desc
)
select known.*, node.name as title, node.properties ->> 'action' as action,
  node.properties ->> 'summary' as summary, node.properties ->> 'content' as content,
  node.properties ->> 'invalidation' as invalidation,
  (select name from graph_nodes where id = known.replaced_by) as replaced_by_title,
  exists (select from doubts where conclusion_id = advice_id and resolved_at is null) as is_doubted,
  (select coalesce(jsonb_agg(jsonb_build_array(about.id, about.name) order by place), '[]')
   from unnest(known.subject) with ordinality as given (origin, place)
   join present on present.agent_id = known.agent_id and present.origin = given.origin
   join graph_nodes as about on about.id = present.id) as nodes
from known join graph_nodes as node on node.id = advice_id
order by stated_at desc, advice_id desc
""")


def positions_query(
    owner_id: UUID, agents: Iterable[UUID], advice: Iterable[UUID] = ()
) -> BoundQuery[list[Position]]:
    """The positions of the owner's agents that have not ended, and those of the `advice`; the last stated first."""
    params = {"of_owner": owner_id, "agents": uuid_array(agents), "ids": uuid_array(advice)}
    return BoundQuery(_POSITIONS, params, lambda rows: [_position(row) for row in rows])


def _position(row: Any) -> Position:
    return Position(
        row.advice_id,
        row.agent_id,
        row.title,
        row.action,
        {UUID(node_id): name for node_id, name in row.nodes},
        None if row.confidence is None else float(row.confidence),
        row.horizon,
        row.stated_at,
        row.confirmations,
        row.ended_at,
        row.replaced_by,
        row.replaced_by_title,
        row.reason,
        row.is_doubted,
        row.summary or "",
        row.content or "",
        row.invalidation or "",
    )


async def load_responses(
    transaction: Executor,
    owner_id: UUID,
    advice: Mapping[UUID, UUID],
    today_of: Mapping[UUID, date],
) -> dict[UUID, PositionResponse]:
    """The state of each piece of advice, as responses show it. `advice` has the agents by the ids of the advice, `today_of`
    their dates. Advice from before positions is left out until `enter_missing` has entered it.
    """
    if not advice:
        return {}
    positions = await positions_query(owner_id, set(advice.values()), advice).execute(transaction)
    is_open = [each for each in positions if each.ended_at is None]
    return {
        each.id: _response(each, judge(each, is_open, today_of[each.agent_id]))
        for each in positions
        if each.id in advice
    }


def _response(position: Position, judged: Standing) -> PositionResponse:
    newer_id, newer_name = judged.replaced_by or (None, None)
    return PositionResponse(
        state=judged.state,
        subject=[SubjectResponse(id=each, name=name) for each, name in position.subject.items()],
        confidence=position.confidence,
        horizon=position.horizon,
        confirmed_at=position.stated_at if position.confirmations else None,
        confirmations=position.confirmations,
        ended_at=position.ended_at,
        replaced_by=newer_name,
        replaced_by_id=newer_id,
        reason=None if judged.reason is None else without_citations(judged.reason),
    )


_TAKE: Final = CompiledStatement(f"""
insert into positions (advice_id, agent_id, subject, confidence, horizon, stated_at)
select id, agent_id, cast(:subject as uuid[]), cast(properties ->> 'confidence' as numeric),
  cast(properties ->> 'horizon' as date), clock_timestamp()
from graph_nodes where id = :advice and {IS_OWNED_SQL}
""")
_END: Final = CompiledStatement(f"""
update positions set ended_at = clock_timestamp(), replaced_by = cast(:replaced_by as uuid), reason = ended.reason
from unnest(cast(:ids as uuid[]), cast(:reasons as text[])) as ended (id, reason)
where advice_id = ended.id and ended_at is null and {IS_OWNED_SQL}
""")
# The message of the newer advice tells the owner, so the older one needs no answer any more.
_RESOLVE: Final = CompiledStatement("""
update inbox_items set resolved_at = clock_timestamp(), read_at = coalesce(read_at, clock_timestamp())
where id = any(cast(:items as uuid[])) and resolved_at is null
""")


async def take(
    transaction: Transaction,
    scope: GraphScope,
    advice_id: UUID,
    subject: Collection[UUID],
    ended: Mapping[UUID, str],
) -> None:
    """Store the position of new advice. It replaces those in `ended`, each for the reason given."""
    params = {**scope.sql_params, "advice": advice_id, "subject": uuid_array(sorted(subject))}
    await _TAKE.run(transaction, params)
    await end(transaction, scope, ended, replaced_by=advice_id)


def _terms(
    scope: GraphScope, advice_id: UUID, subject: Collection[UUID], properties: Json
) -> dict[str, Any]:
    """Parameters of the columns that advice begins with. Advice of earlier versions can lack its terms."""
    confidence, horizon = properties.get("confidence"), stored_date(properties.get("horizon"))
    is_number = isinstance(confidence, int | float)
    return {
        **scope.sql_params,
        "advice": advice_id,
        "subject": uuid_array(sorted(subject)),
        "confidence": str(confidence) if is_number else None,
        "horizon": None if horizon is None else horizon.isoformat(),
    }


_CONFIRM: Final = CompiledStatement(f"""
update positions set confirmations = confirmations + 1, stated_at = clock_timestamp(), reason = :reason,
  confidence = cast(cast(:confidence as text) as numeric), horizon = cast(cast(:horizon as text) as date)
where advice_id = :advice and ended_at is null and {IS_OWNED_SQL}
""")


async def confirm(
    transaction: Transaction,
    scope: GraphScope,
    position: Position,
    *,
    confidence: float | None,
    horizon: date | None,
    reason: str,
) -> None:
    """Refresh a position: it holds with this confidence until this day, for the reason given."""
    terms = {"confidence": confidence, "horizon": None if horizon is None else horizon.isoformat()}
    params = {**_terms(scope, position.id, (), terms), "reason": reason}
    await _CONFIRM.run(transaction, params)


async def end(
    transaction: Transaction,
    scope: GraphScope,
    reasons: Mapping[UUID, str],
    *,
    replaced_by: UUID | None,
) -> None:
    """End positions, each for the reason given; with `replaced_by`, that advice takes their place."""
    if not reasons:
        return
    params = {
        **scope.sql_params,
        "replaced_by": replaced_by,
        "ids": uuid_array(reasons),
        "reasons": list(reasons.values()),
    }
    await _END.run(transaction, params)
    if replaced_by is not None:
        await _resolve(transaction, reasons)


async def _resolve(transaction: Transaction, advice: Iterable[UUID]) -> None:
    """Take advice that was replaced out of the open items of the owner's inbox."""
    items = uuid_array(ids.inbox_item_id(each) for each in advice)
    await _RESOLVE.run(transaction, {"items": items})


_MISSING: Final = CompiledStatement(f"""
select id, name, properties, created_at from graph_nodes
where agent_id = {OWNED_AGENT_ID_SQL} and type = '{ADVICE_TYPE}'
  and not exists (select from positions where advice_id = graph_nodes.id)
order by created_at desc, id desc
""")
_ENTER: Final = CompiledStatement(f"""
insert into positions (advice_id, agent_id, subject, confidence, horizon, stated_at, ended_at, replaced_by, reason)
select :advice, {OWNED_AGENT_ID_SQL}, cast(:subject as uuid[]), cast(cast(:confidence as text) as numeric),
  cast(cast(:horizon as text) as date), cast(:stated_at as timestamptz),
  case when cast(:replaced_by as uuid) is not null then clock_timestamp() end,
  cast(:replaced_by as uuid), cast(:reason as text)
on conflict do nothing
""")


async def enter_missing(transaction: Transaction, scope: GraphScope) -> int:
    """Store the positions of advice that has none: it was written by an earlier version. Returns their number.

    The newest one on a subject stands. The caller holds the lock.
    """
    rows = await _MISSING.rows(transaction, scope.sql_params)
    if not rows:
        return 0
    cited = {row.id: cited_ids(row.properties) for row in rows}
    basis = await basis_query(scope, {each for found in cited.values() for each in found}).execute(
        transaction
    )
    known = await positions_query(scope.owner_id, [scope.agent_id]).execute(transaction)
    holders = {node: (each.stated_at, each.id) for each in known for node in each.subject}
    replaced: list[UUID] = []
    for row in rows:
        subject = _earlier_subject(row, basis.subjects(cited[row.id]))
        on_subject = {holders[node] for node in subject if node in holders}
        newest = max([*on_subject, (row.created_at, row.id)])
        is_newest = newest[1] == row.id
        if is_newest:
            older = {advice_id: WAS_EARLIER for _, advice_id in on_subject}
            await end(transaction, scope, older, replaced_by=row.id)
            holders |= dict.fromkeys(subject, newest)
        else:
            replaced.append(row.id)
        await _ENTER.run(
            transaction,
            {
                **_terms(scope, row.id, subject, row.properties),
                "stated_at": row.created_at,
                "replaced_by": None if is_newest else newest[1],
                "reason": None if is_newest else WAS_EARLIER,
            },
        )
    await _resolve(transaction, replaced)
    return len(rows)


def _earlier_subject(row: Any, nodes: Sequence[SubjectNode]) -> frozenset[UUID]:
    """The subject of advice from before positions, which could state one node."""
    stated = row.properties.get("subject")
    if stated in {str(node.id) for node in nodes}:
        return frozenset({UUID(stated)})
    return subjects.find_subject((), row.name, str(row.properties.get("summary", "")), nodes)


_HAS_MISSING: Final = CompiledStatement(f"""
select exists (select from graph_nodes where agent_id = {OWNED_AGENT_ID_SQL} and type = '{ADVICE_TYPE}'
  and not exists (select from positions where advice_id = graph_nodes.id))
""")


def has_missing(scope: GraphScope) -> BoundQuery[bool]:
    """Whether `enter_missing` has anything to do."""
    return BoundQuery(_HAS_MISSING, scope.sql_params, lambda rows: bool(rows[0][0]))


async def load_open(transaction: Transaction, scope: GraphScope) -> list[Position]:
    """The agent's positions that have not ended, for a writer: nothing changes them until the transaction ends."""
    batch = Batch()
    batch.add(locks.write_locks(scope.agent_id))
    is_missing = batch.add(has_missing(scope))
    positions = batch.add(positions_query(scope.owner_id, [scope.agent_id]))
    await batch.execute(transaction)
    if not is_missing.value:
        return positions.value
    await enter_missing(transaction, scope)
    return await positions_query(scope.owner_id, [scope.agent_id]).execute(transaction)


async def load_ties(
    executor: Executor,
    scope: GraphScope,
    positions: Sequence[Position],
    nodes: Iterable[SubjectNode] = (),
) -> Ties:
    """Which subjects of the positions, and which of the `nodes`, declared relations join."""
    ids = {node.id for node in nodes}
    if not ids and len({each.action for each in positions} & MARKET_ACTIONS) < 2:
        return {}  # Nothing can contradict another.
    ids |= {node_id for each in positions for node_id in each.subject}
    return await ties_query(scope, ids).execute(executor) if positions else {}


MAX_TOKENS: Final = 800
"""Token budget of the standing advice that a prompt shows, the last stated first."""
_CONTENT_CHARS: Final = (2_000, 600, 200, 0)
"""Characters of the content of each: the first number that lets all fit is used."""


def prepare_open(batch: Batch, scope: GraphScope) -> PendingResult[list[Position] | None]:
    """The agent's positions that have not ended; None if `load_open` has to load them."""
    positions = batch.add(positions_query(scope.owner_id, [scope.agent_id]))
    is_missing = batch.add(has_missing(scope))
    return batch.then(lambda: None if is_missing.value else positions.value)


async def load_lines(
    executor: Executor, scope: GraphScope, clock: AgentClock, positions: Sequence[Position]
) -> str:
    """The lines of standing advice for a prompt, of the positions that have not ended."""
    stands = standing(positions, clock.today)
    return standing_lines(stands, scope, clock, await load_ties(executor, scope, stands))


def standing_lines(
    stands: Sequence[Position], scope: GraphScope, clock: AgentClock, ties: Ties
) -> str:
    """Lines of standing positions, each with its texts, the content as long as all fit; those that contradict each other
    on related subjects first.
    """
    budget, beside = scope.budget_bytes(MAX_TOKENS), contradicting(stands, ties)
    ordered = sorted(stands, key=lambda each: each.id not in beside)
    lines: list[str] = []
    for most_chars in _CONTENT_CHARS:
        lines = [
            position_line(each, clock.now, most_chars, beside.get(each.id, ())) for each in ordered
        ]
        if sum(byte_length(line) + 1 for line in lines) <= budget:
            break
    return truncate_to_budget(lines, budget)


_ENDED: Final = CompiledStatement(f"""
select advice_id, (select name from graph_nodes where id = replaced_by) as replaced_by_title
from positions where ended_at is not null and advice_id in (
  select id from graph_nodes where agent_id = {OWNED_AGENT_ID_SQL} and type = '{ADVICE_TYPE}'
  order by updated_at desc limit :most)
""")


def ended_query(scope: GraphScope, most: int) -> BoundQuery[dict[UUID, str | None]]:
    """Those of the newest advice that no longer stand, with the name of what replaces each; None if it was withdrawn."""
    params = {**scope.sql_params, "most": most}
    return BoundQuery(
        _ENDED, params, lambda rows: {row.advice_id: row.replaced_by_title for row in rows}
    )
