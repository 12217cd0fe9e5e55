"""Iterations: lists, details, live progress, and what each one wrote."""

from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    column,
    func,
    literal,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute, aliased

from services.api.queries import costs, transcripts, usage
from shared.database.pagination import Keyset, decode_cursor, encode_cursor, paginate
from shared.database.statements import CompiledStatement
from shared.database.tables import (
    Agent,
    Evidence,
    GraphEdge,
    GraphNode,
    Interaction,
    Iteration,
    Source,
    Step,
)
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, IterationStatus, StepKind
from shared.graph import labels
from shared.graph.provenance.claims import UNKNOWN_DATE
from shared.graph.scope import JOINS_TWO_NODES, GraphScope
from shared.schemas.base import IterationDetails, IterationSummary, Page, PageRequest, StepResponse
from shared.schemas.iterations import (
    IterationGroup,
    IterationOutcome,
    IterationOutline,
    IterationProgress,
    IterationTrace,
    PhaseRunResponse,
    SupersededValue,
    TracedStep,
    WrittenElement,
)
from shared.telemetry.tracing import trace_id_of
from shared.workflow import iterations
from shared.workflow import steps as step_store
from shared.workflow.attention import OTHER_ERROR

_NEWEST = Keyset("iterations", (Iteration.number,))

LOOP_ORDER = {kind: place for place, kind in enumerate(StepKind)}
"""StepKind is declared in the order of the loop."""


async def list_iterations(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    page_request: PageRequest,
    *,
    status: IterationStatus | None = None,
    is_stopped: bool | None = None,
    within: tuple[int, int] | None = None,
) -> Page[IterationSummary]:
    """Lists iterations, newest first.

    With `status`, those only; with `is_stopped`, those that a budget stopped or did not stop; `within` two numbers.
    """
    owned_agent = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    statement = select(Iteration).where(Iteration.agent_id == owned_agent.scalar_subquery())
    if status is not None:
        statement = statement.where(Iteration.status == status)
    if is_stopped is not None:
        statement = statement.where(IS_STOPPED if is_stopped else ~IS_STOPPED)
    if within is not None:
        statement = statement.where(Iteration.number.between(*within))
    page_slice = await paginate(session, statement, _NEWEST, page_request)
    return page_slice.page(IterationSummary.model_validate)


IS_STOPPED: Final = and_(
    Iteration.status == IterationStatus.FAILED,
    Iteration.errors != literal([], JSONB),
    not_(func.jsonb_path_exists(Iteration.errors, cast(OTHER_ERROR, JSONPATH))),
)
"""Failed only because a daily budget was reached."""

_GROUPS: Final = CompiledStatement(f"""
with agent as (
  select id from agents where id = :of_agent and owner_id = :of_owner
), oldest as (
  select number from iterations
  where agent_id = (select id from agent) and number < :before and status <> '{IterationStatus.QUIET}'
  order by number desc offset :most - 1 limit 1
), placed as (
  select number, started_at, ended_at, status <> '{IterationStatus.QUIET}' as has_worked,
    count(*) filter (where status <> '{IterationStatus.QUIET}') over (order by number desc) as place
  from iterations
  where agent_id = (select id from agent) and number < :before
    and number >= coalesce((select number from oldest), 0)
)
select min(number) as first, max(number) as last, count(*) as many,
  min(started_at) as started_at, max(ended_at) as ended_at
from placed group by place, has_worked order by last desc limit :most
""")
"""Each quiet iteration has the place of the next later one that has worked.

So many groups are all among the iterations down to the `most`-th that has worked, so that older ones are not read.
"""
_GROUP_CURSOR: Final = "iteration groups"
_AFTER_ALL: Final = 2**31


async def list_groups(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, page_request: PageRequest
) -> Page[IterationGroup]:
    """Lists all iterations, newest first, with consecutive quiet ones as one. Raises InvalidCursorError."""
    before: Any = _AFTER_ALL
    if page_request.cursor is not None:
        (before,) = decode_cursor(_GROUP_CURSOR, [int], page_request.cursor)
    params = {
        "of_agent": agent_id,
        "of_owner": owner_id,
        "before": min(before, _AFTER_ALL),
        "most": page_request.limit + 1,
    }
    rows = await _GROUPS.rows(session, params)
    shown = rows[: page_request.limit]
    numbers = [row.first for row in shown if row.many == 1]
    found = await session.scalars(
        select(Iteration).where(Iteration.agent_id == agent_id, Iteration.number.in_(numbers))
    )
    single = {row.number: IterationSummary.model_validate(row) for row in found}
    groups = [
        IterationGroup(**row._asdict(), iteration=single[row.first] if row.many == 1 else None)
        for row in shown
    ]
    has_more = len(rows) > page_request.limit
    return Page(
        items=groups,
        next=encode_cursor(_GROUP_CURSOR, (shown[-1].first,)) if has_more else None,
    )


def group_of_one(iteration: IterationSummary) -> IterationGroup:
    return IterationGroup(
        first=iteration.number,
        last=iteration.number,
        many=1,
        started_at=iteration.started_at,
        ended_at=iteration.ended_at,
        iteration=iteration,
    )


async def list_outcomes(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, limit: int
) -> list[IterationOutcome]:
    """Returns the newest iterations, oldest first."""
    rows = await session.execute(
        select(
            Iteration.number,
            Iteration.status,
            IS_STOPPED.label("is_stopped"),
            Iteration.started_at,
            Iteration.ended_at,
        )
        .join(Agent, Agent.id == Iteration.agent_id)
        .where(Iteration.agent_id == agent_id, Agent.owner_id == owner_id)
        .order_by(Iteration.number.desc())
        .limit(limit)
    )
    return [IterationOutcome.model_validate(row) for row in rows][::-1]


async def find_iteration(
    session: AsyncSession, owner_id: UUID, iteration_id: UUID
) -> IterationDetails | None:
    """Returns the iteration with its transcripts, or None where the owner has no such iteration."""
    row = await _find_row(session, owner_id, Iteration.id == iteration_id)
    return None if row is None else await _details(session, *row)


async def find_by_number(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, number: int
) -> IterationDetails | None:
    """Returns the iteration of that number, or None where the owner's agent has none."""
    row = await _find_row(session, owner_id, *_has_number(agent_id, number))
    return None if row is None else await _details(session, *row)


async def find_head(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, number: int
) -> IterationSummary | None:
    """Returns the iteration without its steps and phase runs."""
    row = await _find_row(session, owner_id, *_has_number(agent_id, number))
    return None if row is None else IterationSummary.model_validate(row[0])


async def _find_row(
    session: AsyncSession, owner_id: UUID, *conditions: ColumnElement[bool]
) -> tuple[Iteration, str] | None:
    """Returns the iteration with its agent's name."""
    row = (
        await session.execute(
            select(Iteration, Agent.name)
            .join(Agent, Agent.id == Iteration.agent_id)
            .where(*conditions, Agent.owner_id == owner_id)
            .execution_options(populate_existing=True)
        )
    ).one_or_none()
    return None if row is None else (row[0], row[1])


def _has_number(agent_id: UUID, number: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return Iteration.agent_id == agent_id, Iteration.number == number


async def _details(
    session: AsyncSession, iteration: Iteration, agent_name: str
) -> IterationDetails:
    rows = await _steps(session, iteration.id)
    order = {row.id: place for place, row in enumerate(rows)}
    return IterationDetails(
        **dict(IterationSummary.model_validate(iteration)),
        agent_name=agent_name,
        plan=iteration.observer_plan,
        deadline_at=iteration.deadline_at,
        steps=[StepResponse.model_validate(row) for row in rows],
        interactions=await transcripts.interactions_of_iteration(session, iteration.id, order),
        calls=(await costs.iteration_call_totals(session, iteration.id)).totals,
        running_calls=await costs.running_calls_of_iteration(session, iteration.id),
        trace_id=trace_id_of(iteration.id),
    )


async def _steps(session: AsyncSession, iteration_id: UUID) -> list[Step]:
    return sorted(await step_store.list_steps(session, iteration_id), key=_place)


def _place(step: Step) -> tuple[int, int]:
    return LOOP_ORDER[StepKind(step.kind)], step.index


async def iteration_progress(
    session: AsyncSession, iteration: IterationSummary
) -> IterationProgress:
    """Returns the progress of an iteration. The caller has checked that it is the owner's."""
    rows = await _steps(session, iteration.id)
    return IterationProgress(
        iteration=iteration,
        now=await iterations.database_time(session),
        steps=[StepResponse.model_validate(row) for row in rows],
        runs=await _runs(session, _OF_ITERATION, iteration.id),
        calls=(await costs.iteration_call_totals(session, iteration.id)).totals,
        running_calls=await costs.running_calls_of_iteration(session, iteration.id),
    )


async def list_runs_of_step(session: AsyncSession, step_id: UUID) -> Sequence[PhaseRunResponse]:
    """Returns the phase runs of a step without an iteration.

    The caller has checked that it is the owner's.
    """
    return await _runs(session, _OF_STEP, step_id)


async def _runs(
    session: AsyncSession, statement: Select[*tuple[object, ...]], owner_of_runs: UUID
) -> list[PhaseRunResponse]:
    rows = await session.execute(statement, {"owner_of_runs": owner_of_runs})
    return [PhaseRunResponse.model_validate(row) for row in rows]


_IS_ANSWER: Final = cast('$[*] ? (@.type == "answer")', JSONPATH)
_ANSWERS: Final = func.jsonb_array_length(
    func.jsonb_path_query_array(Interaction.events, _IS_ANSWER)
)
_RUNS: Final = select(
    Interaction.step_id,
    Interaction.phase,
    Interaction.model,
    _ANSWERS.label("answers"),
    Interaction.created_at,
    Interaction.completed_at,
).order_by(Interaction.created_at, Interaction.id)
_OF_ITERATION: Final = _RUNS.where(Interaction.iteration_id == bindparam("owner_of_runs"))
_OF_STEP: Final = _RUNS.where(Interaction.step_id == bindparam("owner_of_runs"))


MAX_WRITTEN: Final = 200
"""The limit of nodes and of edges."""


async def written_in_iteration(session: AsyncSession, iteration_id: UUID) -> list[WrittenElement]:
    """Returns conclusions, then nodes, then edges.

    The caller has checked that the iteration is the owner's.
    """
    elements: list[WrittenElement] = []
    for statement in (_nodes(iteration_id), _edges(iteration_id)):
        rows = (await session.execute(statement.limit(MAX_WRITTEN))).mappings()
        elements += [WrittenElement.model_validate(dict(row)) for row in rows]
    return elements


def _nodes(iteration_id: UUID) -> Select[*tuple[Any, ...]]:
    concludes = GraphNode.type.in_((ADVICE_TYPE, ANALYSIS_TYPE))
    return (
        select(
            literal("node").label("kind"),
            GraphNode.id,
            GraphNode.type,
            GraphNode.name,
            GraphNode.step_id,
        )
        .where(GraphNode.iteration_id == iteration_id)
        .order_by(concludes.desc(), GraphNode.type, GraphNode.name)
    )


def _edges(iteration_id: UUID) -> Select[*tuple[Any, ...]]:
    source, target = aliased(GraphNode), aliased(GraphNode)
    return (
        select(
            literal("edge").label("kind"),
            GraphEdge.id,
            GraphEdge.type,
            (source.name + " → " + target.name).label("name"),
            GraphEdge.step_id,
        )
        .join(source, source.id == GraphEdge.source_id)
        .join(target, target.id == GraphEdge.target_id)
        .where(GraphEdge.iteration_id == iteration_id, JOINS_TWO_NODES)
        .order_by(GraphEdge.type, source.name, target.name)
    )


_AROUND_ROUNDS = {StepKind.OBSERVE: -1, StepKind.ADVISE: 1}
"""The rounds are between the plan and the advice."""


async def find_outline(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, number: int
) -> IterationOutline | None:
    """Returns the iteration with its steps, phase runs and costs, but without transcripts.

    None where the owner's agent has no iteration of that number.
    """
    row = await _find_row(session, owner_id, *_has_number(agent_id, number))
    return None if row is None else IterationOutline(**await _outline(session, row[0]))


async def find_trace(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, number: int
) -> IterationTrace | None:
    """Returns the same with every call, without answers."""
    row = await _find_row(session, owner_id, *_has_number(agent_id, number))
    if row is None:
        return None
    calls = await transcripts.calls_of_iteration(session, row[0].id)
    return IterationTrace(**await _outline(session, row[0]), calls=calls)


async def _outline(session: AsyncSession, iteration: Iteration) -> dict[str, Any]:
    rows = sorted(await step_store.list_steps(session, iteration.id), key=_outline_place)
    sums = await usage.sum_iterations(session, [iteration.id])
    return {
        **dict(IterationSummary.model_validate(iteration)),
        "plan": iteration.observer_plan,
        "deadline_at": iteration.deadline_at,
        "steps": [TracedStep.model_validate(row) for row in rows],
        "runs": await transcripts.runs_of_iteration(session, iteration.id),
        "sums": sums[iteration.id],
        "written": await written_in_iteration(session, iteration.id),
    }


async def newest_working(session: AsyncSession, agent_id: UUID) -> IterationSummary | None:
    """Returns the newest iteration that was not quiet, which may still run.

    The caller has checked that the agent is the owner's.
    """
    row = await session.scalar(
        select(Iteration)
        .where(Iteration.agent_id == agent_id, Iteration.status != IterationStatus.QUIET)
        .order_by(Iteration.number.desc())
        .limit(1)
    )
    return None if row is None else IterationSummary.model_validate(row)


def _outline_place(step: Step) -> tuple[int, int, int, int]:
    kind = StepKind(step.kind)
    return _AROUND_ROUNDS.get(kind, 0), step_store.step_round(step), LOOP_ORDER[kind], step.index


async def list_superseded(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, iteration_id: UUID, *, limit: int
) -> list[SupersededValue]:
    """Returns superseded property values, at most `limit` of nodes and of edges.

    The caller has checked that the iteration is the owner's.
    """
    nodes = (
        await session.execute(_superseded_claims(Evidence.node_id, iteration_id).limit(limit))
    ).all()
    edges = (
        await session.execute(_superseded_claims(Evidence.edge_id, iteration_id).limit(limit))
    ).all()
    ids = [row.element_id for row in (*nodes, *edges)]
    names = await labels.load_labels(session, GraphScope(owner_id, agent_id), ids)
    return [
        SupersededValue(
            kind=kind,
            id=row.element_id,
            name=names[row.element_id].name,
            property=row.property,
            before=row.before,
            after=row.after,
        )
        for kind, rows in (("node", nodes), ("edge", edges))
        for row in rows
        if row.element_id in names
    ]


def _url_of(evidence: type[Evidence]) -> ScalarSelect[str]:
    return select(Source.url).where(Source.id == evidence.source_id).scalar_subquery()


def _is_dated_by_reading(evidence: type[Evidence]) -> ColumnElement[bool]:
    """See `Claim.is_dated_by_reading`."""
    published = select(Source.published).where(Source.id == evidence.source_id).scalar_subquery()
    return and_(evidence.valid_from.is_(None), published.is_(None))


def _superseded_claims(
    id_column: InstrumentedAttribute[UUID | None], iteration_id: UUID
) -> Select[Any]:
    """Selects claims of the iteration, each with the newest earlier claim of the same property,
    where the values differ.
    """
    now, earlier_row = aliased(Evidence), aliased(Evidence)
    element, earlier_element = getattr(now, id_column.key), getattr(earlier_row, id_column.key)
    steps = select(Step.id).where(Step.iteration_id == iteration_id)
    claim = (
        func.jsonb_each(now.claims)
        .table_valued(column("key", Text), column("value", JSONB), name="claim")
        .render_derived()
    )
    earlier = (
        select(earlier_row.claims[claim.c.key].label("value"))
        .where(
            earlier_element == element,
            # See `current_claims`: a value without a date replaces only one of its own page.
            or_(
                and_(earlier_row.as_of <= now.as_of, now.as_of != UNKNOWN_DATE),
                and_(
                    now.as_of == UNKNOWN_DATE,
                    or_(earlier_row.as_of == UNKNOWN_DATE, _is_dated_by_reading(earlier_row)),
                    _url_of(earlier_row) == _url_of(now),
                ),
            ),
            earlier_row.learned_at < now.learned_at,
            or_(earlier_row.step_id.is_(None), earlier_row.step_id.not_in(steps)),
            earlier_row.claims.has_key(claim.c.key),
        )
        .order_by(earlier_row.as_of.desc(), earlier_row.learned_at.desc())
        .limit(1)
        .lateral()
    )
    return (
        select(
            element.label("element_id"),
            claim.c.key.label("property"),
            earlier.c.value.label("before"),
            claim.c.value.label("after"),
        )
        .select_from(now)
        .join(claim, true())
        .join(earlier, true())
        .where(now.step_id.in_(steps), earlier.c.value != claim.c.value)
        .order_by(element, claim.c.key)
    )


async def numbers_by_id(
    session: AsyncSession, owner_id: UUID, iteration_ids: Collection[UUID]
) -> dict[UUID, int]:
    """Returns numbers by id, for iterations that exist and are of the owner's agents."""
    rows = await session.execute(
        select(Iteration.id, Iteration.number)
        .join(Agent, Agent.id == Iteration.agent_id)
        .where(Agent.owner_id == owner_id, Iteration.id.in_(iteration_ids))
    )
    return {row.id: row.number for row in rows}
