"""Iterations: lists, details, live progress, and what each one wrote."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    cast,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH, array
from sqlalchemy.orm import aliased

from services.api.auth.dependencies import Access, AgentAccess
from services.api.http.problem_details import GoneError, NotFoundError
from services.api.reading import columns_of, read_all, read_one, read_page
from services.api.resources.costs import model as costs
from services.api.resources.costs.ledger import SPENT
from services.api.resources.iterations import transcripts
from services.api.resources.operate import retention
from shared.database.pagination import Keyset, decode_cursor, encode_cursor
from shared.database.statements import CompiledStatement, rows_together, uuid_array
from shared.database.tables import Agent, Call, GraphEdge, GraphNode, Interaction, Iteration, Step
from shared.database.transaction import Transaction
from shared.enums import (
    ADVICE_TYPE,
    ANALYSIS_TYPE,
    IterationStatus,
    RetentionKind,
    StepKind,
    StepStatus,
)
from shared.graph import labels
from shared.graph.projection import EDGES, NODES, ElementClaims, load_claims
from shared.graph.provenance.claims import current_claims
from shared.graph.provenance.integrity import is_equal
from shared.graph.scope import JOINS_TWO_NODES
from shared.schemas.base import (
    IterationDetails,
    IterationSummary,
    Json,
    Page,
    PageRequest,
    RunningCall,
    StepResponse,
)
from shared.schemas.iterations import (
    CallUsage,
    Gained,
    IterationGroup,
    IterationOutcome,
    IterationProgress,
    IterationSums,
    IterationTrace,
    PhaseRunResponse,
    SupersededValue,
    TracedStep,
    WrittenElement,
)
from shared.telemetry.tracing import trace_id_of
from shared.workflow.attention import OTHER_ERROR

S = TypeVar("S", bound=StepResponse)

_NEWEST: Final = Keyset("iterations", (Iteration.number,))
_AROUND_ROUNDS: Final = {StepKind.OBSERVE: -1, StepKind.ADVISE: 1}
"""The rounds are between the plan and the advice."""
IS_STOPPED: Final = and_(
    Iteration.status == IterationStatus.FAILED,
    Iteration.errors != literal([], JSONB),
    not_(func.jsonb_path_exists(Iteration.errors, cast(OTHER_ERROR, JSONPATH))),
)
"""Failed only because a daily budget was reached."""


async def list_iterations(
    access: AgentAccess,
    page_request: PageRequest,
    *,
    status: IterationStatus | None = None,
    is_stopped: bool | None = None,
    within: tuple[int, int] | None = None,
) -> Page[IterationSummary]:
    """Lists iterations, newest first.

    With `status`, those only; with `is_stopped`, those that a budget stopped or did not stop; `within` two numbers.
    """
    statement = _SUMMARIES.where(Iteration.agent_id == access.scope.owned_agent_id())
    if status is not None:
        statement = statement.where(Iteration.status == status)
    if is_stopped is not None:
        statement = statement.where(IS_STOPPED if is_stopped else ~IS_STOPPED)
    if within is not None:
        statement = statement.where(Iteration.number.between(*within))
    return await read_page(access.session, IterationSummary, statement, _NEWEST, page_request)


_SUMMARIES: Final = select(*columns_of(Iteration, IterationSummary))


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


async def list_groups(access: AgentAccess, page_request: PageRequest) -> Page[IterationGroup]:
    """Lists all iterations, newest first, with consecutive quiet ones as one. Raises InvalidCursorError."""
    before: Any = _AFTER_ALL
    if page_request.cursor is not None:
        (before,) = decode_cursor(_GROUP_CURSOR, [int], page_request.cursor)
    limits = {"before": min(before, _AFTER_ALL), "most": page_request.limit + 1}
    rows = await _GROUPS.rows(access.session, {**access.scope.sql_params, **limits})
    shown = rows[: page_request.limit]
    numbers = [row.first for row in shown if row.many == 1]
    of_numbers = _SUMMARIES.where(
        Iteration.agent_id == access.agent.id, Iteration.number.in_(numbers)
    )
    found = await read_all(access.session, IterationSummary, of_numbers)
    single = {row.number: row for row in found}
    groups = [
        IterationGroup(**row._asdict(), iteration=single[row.first] if row.many == 1 else None)
        for row in shown
    ]
    has_more = len(rows) > page_request.limit
    following = encode_cursor(_GROUP_CURSOR, (shown[-1].first,)) if has_more else None
    return Page(items=groups, next=following)


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
    access: Access, agent_ids: Collection[UUID], limit: int
) -> dict[UUID, list[IterationOutcome]]:
    """Returns the newest iterations of each of the owner's agents, oldest first."""
    params = {"agents": uuid_array(agent_ids), "of_owner": access.owner_id, "most": limit}
    outcomes: dict[UUID, list[IterationOutcome]] = {agent_id: [] for agent_id in agent_ids}
    for row in await _OUTCOMES.rows(access.session, params):
        outcomes[row.agent_id].append(IterationOutcome.model_validate(row))
    return outcomes


_OUTCOME: Final = (
    select(*columns_of(Iteration, IterationOutcome, is_stopped=IS_STOPPED))
    .where(Iteration.agent_id == Agent.id)
    .order_by(Iteration.number.desc())
    .limit(bindparam("most"))
    .correlate(Agent)
    .lateral("newest")
)
_OUTCOMES: Final = CompiledStatement(
    select(Agent.id.label("agent_id"), _OUTCOME)
    .join(_OUTCOME, true())
    .where(
        Agent.owner_id == bindparam("of_owner"), text("agents.id = any(cast(:agents as uuid[]))")
    )
    .order_by(Agent.id, _OUTCOME.c.number)
)


class IterationHead(IterationSummary):
    """An iteration without its steps and phase runs."""

    agent_name: str
    plan: Json | None
    deadline_at: datetime


async def _find_head(access: Access, *conditions: ColumnElement[bool]) -> IterationHead | None:
    names = {"agent_name": Agent.name, "plan": Iteration.observer_plan}
    statement = (
        select(*columns_of(Iteration, IterationHead, **names))
        .join(Agent, Agent.id == Iteration.agent_id)
        .where(*conditions, Agent.owner_id == access.owner_id)
    )
    return await read_one(access.session, IterationHead, statement)


async def get_head(access: AgentAccess, number: int) -> IterationHead:
    """Returns the iteration of that number. Raises NotFoundError, and GoneError if it was deleted because of its age."""
    has_number = Iteration.agent_id == access.agent.id, Iteration.number == number
    head = await _find_head(access, *has_number)
    if head is not None:
        return head
    session = access.session
    if not await retention.is_pruned(session, access.agent.id, number):
        raise NotFoundError("iteration", number)
    days = await retention.days_of(session, RetentionKind.ITERATIONS)
    limit = "" if days is None else f" {days:g} days after they have ended"
    if await retention.is_limited_in_size(session, RetentionKind.ITERATIONS):
        limit += f"{' or' if limit else ''} when all of them together are too large"
    raise GoneError(
        "iteration",
        f"Iteration {number} was deleted because of its age: the oldest are deleted{limit}. What it wrote to the graph is"
        " kept, and what it cost is in the costs of its day.",
    )


async def get_by_number(access: AgentAccess, number: int) -> IterationDetails:
    """Returns the iteration with its transcripts. Raises like `get_head`."""
    return await _details(access.session, await get_head(access, number))


async def get_iteration(access: Access, iteration_id: UUID) -> IterationDetails:
    """Returns the iteration with its transcripts. Raises NotFoundError."""
    head = await _find_head(access, Iteration.id == iteration_id)
    if head is None:
        raise NotFoundError("iteration", iteration_id)
    return await _details(access.session, head)


async def _details(session: Transaction, head: IterationHead) -> IterationDetails:
    steps = await _list_steps(session, StepResponse, head.id)
    ids = [step.id for step in steps]
    running = await costs.list_running_calls(session, head.agent_id)
    return IterationDetails(
        **dict(head),
        steps=steps,
        interactions=await transcripts.list_interactions(session, "iteration_id", head.id, ids),
        calls=(await costs.iteration_call_totals(session, head.id)).totals,
        running_calls=[call for call in running if call.step_id in ids],
        trace_id=trace_id_of(head.id),
    )


async def _list_steps(session: Transaction, model: type[S], iteration_id: UUID) -> list[S]:
    """Returns the steps in the order of the loop. Those of further rounds are not set apart."""
    rows = await _STEPS.rows(session, {"of_iteration": iteration_id})
    return [model.model_validate(row) for row in rows]


_STEPS: Final = CompiledStatement(
    select(*columns_of(Step, TracedStep))
    .where(Step.iteration_id == bindparam("of_iteration"))
    .order_by(func.array_position(array(list(StepKind)), Step.kind), Step.index)
)
"""StepKind is declared in the order of the loop."""


async def load_progress(
    session: Transaction, iteration: IterationSummary, running_calls: Sequence[RunningCall]
) -> IterationProgress:
    """Returns the progress of an iteration, with the running calls of its agent. The caller has checked that it is the
    owner's.
    """
    params = {"of_iteration": iteration.id, "of": iteration.id}
    [[now]], steps, runs, calls = await rows_together(
        session, params, _NOW, _STEPS, _RUNS_OF["iteration_id"], costs.CALLS_OF_ITERATION
    )
    return IterationProgress(
        iteration=iteration,
        now=now,
        steps=[StepResponse.model_validate(step) for step in steps],
        runs=[PhaseRunResponse.model_validate(run) for run in runs],
        calls=costs.summary_of(calls).totals,
        running_calls=list(running_calls),
    )


_NOW: Final = CompiledStatement("select clock_timestamp() as now")
_ANSWERS: Final = func.jsonb_array_length(
    func.jsonb_path_query_array(Interaction.events, cast('$[*] ? (@.type == "answer")', JSONPATH))
)


_RUNS: Final = select(*columns_of(Interaction, PhaseRunResponse, answers=_ANSWERS)).order_by(
    Interaction.created_at, Interaction.id
)
_RUNS_OF: Final = {
    column.key: CompiledStatement(_RUNS.where(column == bindparam("of")))
    for column in (Interaction.iteration_id, Interaction.step_id)
}


async def list_runs(session: Transaction, step_id: UUID) -> list[PhaseRunResponse]:
    """Returns the phase runs of a step by start time. The caller has checked that it is the owner's."""
    rows = await _RUNS_OF["step_id"].rows(session, {"of": step_id})
    return [PhaseRunResponse.model_validate(row) for row in rows]


MAX_WRITTEN: Final = 200
"""The limit of nodes and of edges."""


_SOURCE, _TARGET = aliased(GraphNode), aliased(GraphNode)
_OF_ITERATIONS: Final = cast(bindparam("of_iterations", type_=Text), ARRAY(Uuid))
_WRITTEN: Final = (
    CompiledStatement(
        select(*columns_of(GraphNode, WrittenElement, kind=literal_column("'node'")))
        .where(GraphNode.iteration_id == any_(_OF_ITERATIONS))
        .order_by(
            or_(GraphNode.type == ADVICE_TYPE, GraphNode.type == ANALYSIS_TYPE).desc(),
            GraphNode.type,
            GraphNode.name,
        )
        .limit(MAX_WRITTEN)
    ),
    CompiledStatement(
        select(
            *columns_of(
                GraphEdge,
                WrittenElement,
                kind=literal_column("'edge'"),
                name=_SOURCE.name + " → " + _TARGET.name,
            )
        )
        .join(_SOURCE, _SOURCE.id == GraphEdge.source_id)
        .join(_TARGET, _TARGET.id == GraphEdge.target_id)
        .where(GraphEdge.iteration_id == any_(_OF_ITERATIONS), JOINS_TWO_NODES)
        .order_by(GraphEdge.type, _SOURCE.name, _TARGET.name)
        .limit(MAX_WRITTEN)
    ),
)


async def written_in_iterations(
    session: Transaction, iteration_ids: Iterable[UUID]
) -> list[WrittenElement]:
    """Returns conclusions, then nodes, then edges.

    The caller has checked that the iterations are the owner's.
    """
    params = {"of_iterations": uuid_array(iteration_ids)}
    written = await rows_together(session, params, *_WRITTEN)
    return [WrittenElement.model_validate(row) for rows in written for row in rows]


async def get_trace(access: AgentAccess, number: int) -> IterationTrace:
    """Returns the iteration with its steps, phase runs, costs and calls, but without answers. Raises like `get_head`."""
    session, head = access.session, await get_head(access, number)
    steps = await _list_steps(session, TracedStep, head.id)
    sums = await sum_iterations(session, [head.id])
    return IterationTrace(
        **dict(head),
        steps=sorted(steps, key=_place_in_rounds),
        runs=await transcripts.runs_of_iteration(session, head.id),
        sums=sums[head.id],
        written=await written_in_iterations(session, [head.id]),
        calls=await transcripts.calls_of_iteration(session, head.id),
    )


def _place_in_rounds(step: StepResponse) -> tuple[int, int]:
    return _AROUND_ROUNDS.get(StepKind(step.kind), 0), step.input.get("round", 0)


MAX_LATELY: Final = 24
"""Iterations that are summed up, of those that ended within LATELY."""
LATELY: Final = timedelta(hours=24)


async def working_lately(session: Transaction, agent_id: UUID) -> list[IterationSummary]:
    """Returns the newest iteration that was not quiet, which may still run, and those of the last 24 hours before it.

    The caller has checked that the agent is the owner's.
    """
    params = {"of_agent": agent_id, "most": MAX_LATELY}
    rows, [clock] = await rows_together(session, params, _WORKING, _NOW)
    found = [IterationSummary.model_validate(row) for row in rows]
    since = clock.now - LATELY
    return found[:1] + [each for each in found[1:] if (each.ended_at or clock.now) > since]


_WORKING: Final = CompiledStatement(
    _SUMMARIES.where(
        Iteration.agent_id == bindparam("of_agent"), Iteration.status != IterationStatus.QUIET
    )
    .order_by(Iteration.number.desc())
    .limit(bindparam("most"))
)
_EVIDENCE_OF_ITERATION: Final = CompiledStatement("""
select id, node_id, edge_id, learned_at from evidence
where step_id in (select id from steps where iteration_id = any(cast(:of_iterations as uuid[])))
""")
# Since the iteration before them that worked began. The days of an agent with an archive date do not pass.
_DAYS_OF_ITERATIONS: Final = CompiledStatement(f"""
with these as (
  select agent_id, min(number) as number, min(started_at) as started_at,
    max(coalesce(ended_at, statement_timestamp())) as until
  from iterations where id = any(cast(:of_iterations as uuid[])) group by agent_id
), this as (
  select these.*, coalesce(
    (select max(started_at) from iterations as earlier
    where earlier.agent_id = these.agent_id and earlier.number < these.number
      and earlier.status <> '{IterationStatus.QUIET}'), these.started_at) as since
  from these join agents on agents.id = these.agent_id where archive_date is null
)
select this.started_at, this.since, this.until, evidence.node_id, evidence.edge_id
from this left join validity_boundaries as boundary
  on boundary.agent_id = this.agent_id and moment > this.since and moment <= this.until
left join evidence on evidence.id = boundary.evidence_id
""")


async def list_superseded(
    access: AgentAccess, *iteration_ids: UUID, limit: int
) -> list[SupersededValue]:
    """Returns superseded property values, figures first, then texts with figures; at most `limit` of nodes and of edges.

    They are those that their evidence has replaced, and those whose validity has ended, or been followed by another one,
    since the iteration before. Each has its value before the first of the iterations and after the last one. The caller has
    checked that they are the owner's.
    """
    params = {"of_iterations": uuid_array(iteration_ids)}
    rows = await _EVIDENCE_OF_ITERATION.rows(access.session, params)
    days = await _DAYS_OF_ITERATIONS.rows(access.session, params)
    own = {row.id for row in rows}
    began = min([row.learned_at for row in rows] or [row.started_at for row in days], default=None)
    changed: list[Json] = []
    for kind in (NODES, EDGES):
        element_ids = sorted(
            {getattr(row, kind.evidence_column) for row in (*rows, *days)} - {None}
        )
        if not element_ids or began is None:
            continue
        claims = await load_claims(access.session, kind, element_ids)
        values = [
            {"kind": kind.name, "id": element_id, **value}
            for element_id in element_ids
            for value in _changed_values(
                claims[element_id],
                own,
                began,
                (days[0].since, days[0].until) if days else (claims[element_id].now,) * 2,
            )
        ]
        changed += sorted(values, key=lambda value: rank_of_value(value["after"]))[:limit]
    if not changed:
        return []
    names = await labels.load_labels(access.session, access.scope, [each["id"] for each in changed])
    return [
        SupersededValue(**each, name=names[each["id"]].name)
        for each in changed
        if each["id"] in names
    ]


def rank_of_value(value: Any) -> int:
    """0 for a figure, 1 for a text that has one, 2 for any other value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0
    return 1 if any(map(str.isdigit, str(value))) else 2


def _changed_values(
    claims: ElementClaims, own: Collection[UUID], began: datetime, days: tuple[datetime, datetime]
) -> Iterator[Json]:
    """The properties whose value on the second of the `days`, with the evidence `own`, which was stored from `began`
    on, differs from that on the first one without it.
    """
    earlier, later = [], []
    for claim in claims.claims:
        retracted_at = claims.retracted_at.get(claims.source_of[claim.evidence_id])
        was_retracted = retracted_at is not None and retracted_at < began
        if claim.evidence_id in own:
            later.append(replace(claim, is_retracted=False))
        elif claim.learned_at < began:
            earlier.append(replace(claim, is_retracted=was_retracted))
    before = current_claims(earlier, days[0])
    after = current_claims([*earlier, *later], days[1])
    for name in sorted(before):
        values = before[name].values[name], after[name].values[name]
        if not is_equal(*values):
            yield {"property": name, "before": values[0], "after": values[1]}


async def sum_iterations(
    session: Transaction, iteration_ids: Sequence[UUID]
) -> dict[UUID, IterationSums]:
    """Returns the sums of each iteration. The caller has checked that they are the owner's."""

    async def grouped(
        table: type[Step | Call | GraphNode | GraphEdge], *sums: Any
    ) -> Mapping[UUID, Mapping[str, Any]]:
        of = table.iteration_id
        rows = await session.execute(select(of, *sums).where(of.in_(iteration_ids)).group_by(of))
        return {row.pop("iteration_id"): row for row in map(dict, rows.mappings())}

    def count(name: str, condition: ColumnElement[bool]) -> ColumnElement[int]:
        return func.count().filter(condition).label(name)

    steps = await grouped(
        Step,
        count("queries", Step.kind == StepKind.QUERY),
        count("insights", Step.kind == StepKind.INSIGHT),
        count("failed", Step.status == StepStatus.FAILED),
    )
    spent = await grouped(Call, *SPENT)
    nodes = await grouped(
        GraphNode,
        count("nodes", GraphNode.type.not_in((ANALYSIS_TYPE, ADVICE_TYPE))),
        count("analyses", GraphNode.type == ANALYSIS_TYPE),
        count("advice", GraphNode.type == ADVICE_TYPE),
    )
    edges = await grouped(GraphEdge, count("edges", JOINS_TWO_NODES))
    return {
        each: IterationSums(
            **steps.get(each, {}),
            spent=CallUsage.model_validate(spent.get(each, {})),
            gained=Gained(**nodes.get(each, {}), **edges.get(each, {})),
        )
        for each in iteration_ids
    }
