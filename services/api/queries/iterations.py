"""Iterations: lists, outlines, progress, and what each one wrote."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    column,
    func,
    literal,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute, aliased

from services.api.queries import costs, transcripts, usage
from shared.database.pagination import Keyset, slice_of
from shared.database.tables import (
    Agent,
    Evidence,
    GraphEdge,
    GraphNode,
    Interaction,
    Iteration,
    Step,
)
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, IterationStatus, StepKind
from shared.graph import labels
from shared.schemas.base import IterationDetails, IterationView, Page, StepView, Wanted
from shared.schemas.iterations import (
    IterationOutline,
    PhaseRunView,
    ProgressView,
    Superseded,
    Written,
)
from shared.workflow import iterations
from shared.workflow import steps as step_store

_NEWEST = Keyset("iterations", (Iteration.number,))

LOOP_ORDER = {kind: place for place, kind in enumerate(StepKind)}
"""The kinds stand in the order in which the loop comes to them."""


async def of_agent(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    wanted: Wanted,
    *,
    status: IterationStatus | None = None,
) -> Page[IterationView]:
    """The newest first; of that status where it is given."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    statement = select(Iteration).where(Iteration.agent_id == owned.scalar_subquery())
    if status is not None:
        statement = statement.where(Iteration.status == status)
    found = await slice_of(session, statement, _NEWEST, wanted)
    return found.page(IterationView.model_validate)


async def find(
    session: AsyncSession, owner_id: UUID, iteration_id: UUID
) -> IterationDetails | None:
    """None where the owner has no such iteration."""
    return await _found(session, owner_id, Iteration.id == iteration_id)


async def numbered(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, number: int
) -> IterationDetails | None:
    """None where the owner's agent has no iteration of that number."""
    wanted = and_(Iteration.agent_id == agent_id, Iteration.number == number)
    return await _found(session, owner_id, wanted)


async def head(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, number: int
) -> IterationView | None:
    """The same without what happened in it."""
    row = await session.scalar(
        select(Iteration)
        .join(Agent, Agent.id == Iteration.agent_id)
        .where(
            Iteration.agent_id == agent_id, Iteration.number == number, Agent.owner_id == owner_id
        )
    )
    return None if row is None else IterationView.model_validate(row)


async def _found(
    session: AsyncSession, owner_id: UUID, wanted: ColumnElement[bool]
) -> IterationDetails | None:
    found = (
        await session.execute(
            select(Iteration, Agent.name)
            .join(Agent, Agent.id == Iteration.agent_id)
            .where(wanted, Agent.owner_id == owner_id)
        )
    ).one_or_none()
    if found is None:
        return None
    iteration, agent_name = found
    rows = sorted(await step_store.of_iteration(session, iteration.id), key=_place)
    order = {row.id: place for place, row in enumerate(rows)}
    return IterationDetails(
        **dict(IterationView.model_validate(iteration)),
        agent_name=agent_name,
        plan=iteration.observer_plan,
        deadline_at=iteration.deadline_at,
        steps=[StepView.model_validate(row) for row in rows],
        interactions=await transcripts.interactions_of_iteration(session, iteration.id, order),
        calls=(await costs.of_iteration(session, iteration.id)).totals,
        running_calls=await costs.running_of_iteration(session, iteration.id),
    )


def _place(step: Step) -> tuple[int, int]:
    return LOOP_ORDER[StepKind(step.kind)], step.index


async def progress_of_iteration(session: AsyncSession, iteration: IterationView) -> ProgressView:
    """The caller has seen to it that the iteration is the owner's."""
    rows = sorted(await step_store.of_iteration(session, iteration.id), key=_place)
    return ProgressView(
        iteration=iteration,
        now=await iterations.clock(session),
        steps=[StepView.model_validate(row) for row in rows],
        runs=await _runs(session, _OF_ITERATION, iteration.id),
        calls=(await costs.of_iteration(session, iteration.id)).totals,
        running_calls=await costs.running_of_iteration(session, iteration.id),
    )


async def of_step(session: AsyncSession, step_id: UUID) -> Sequence[PhaseRunView]:
    """The runs of a step that is no iteration's. The caller has seen to it that it is the owner's."""
    return await _runs(session, _OF_STEP, step_id)


async def _runs(
    session: AsyncSession, statement: Select[*tuple[object, ...]], wanted: UUID
) -> list[PhaseRunView]:
    rows = await session.execute(statement, {"wanted": wanted})
    return [PhaseRunView.model_validate(row) for row in rows]


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
_OF_ITERATION: Final = _RUNS.where(Interaction.iteration_id == bindparam("wanted"))
_OF_STEP: Final = _RUNS.where(Interaction.step_id == bindparam("wanted"))


MOST: Final = 200
"""Of nodes and of edges each: people read no more of them in a row."""


async def written_in_iteration(session: AsyncSession, iteration_id: UUID) -> list[Written]:
    """Conclusions first, then nodes, then edges. The caller has seen to it that the iteration is the owner's."""
    found: list[Written] = []
    for statement in (_nodes(iteration_id), _edges(iteration_id)):
        rows = (await session.execute(statement.limit(MOST))).mappings()
        found += [Written.model_validate(dict(row)) for row in rows]
    return found


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
        .where(GraphEdge.iteration_id == iteration_id)
        .order_by(GraphEdge.type, source.name, target.name)
    )


_AROUND_ROUNDS = {StepKind.OBSERVE: -1, StepKind.ADVISE: 1}
"""Rounds lie between the plan and the advice."""


async def numbered_outlines(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, number: int
) -> IterationOutline | None:
    """None where the owner's agent has no iteration of that number."""
    iteration = await session.scalar(
        select(Iteration)
        .join(Agent, Agent.id == Iteration.agent_id)
        .where(
            Iteration.agent_id == agent_id, Iteration.number == number, Agent.owner_id == owner_id
        )
        .execution_options(populate_existing=True)
    )
    if iteration is None:
        return None
    rows = sorted(await step_store.of_iteration(session, iteration.id), key=_outline_place)
    sums = await usage.of_iterations(session, [iteration.id])
    return IterationOutline(
        **dict(IterationView.model_validate(iteration)),
        plan=iteration.observer_plan,
        deadline_at=iteration.deadline_at,
        steps=[StepView.model_validate(row) for row in rows],
        runs=await transcripts.runs_of_iteration(session, iteration.id),
        sums=sums[iteration.id],
        written=await written_in_iteration(session, iteration.id),
    )


def _outline_place(step: Step) -> tuple[int, int, int, int]:
    kind = StepKind(step.kind)
    return _AROUND_ROUNDS.get(kind, 0), step_store.round_of(step), LOOP_ORDER[kind], step.index


async def in_iteration(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, iteration_id: UUID, *, most: int
) -> list[Superseded]:
    """At most so many of nodes, and of edges. The caller has seen to it that the iteration is the owner's."""
    nodes = (await session.execute(_of(Evidence.node_id, iteration_id).limit(most))).all()
    edges = (await session.execute(_of(Evidence.edge_id, iteration_id).limit(most))).all()
    ids = [row.thing_id for row in (*nodes, *edges)]
    names = await labels.named(session, owner_id, agent_id, ids)
    return [
        Superseded(
            kind=kind,
            id=row.thing_id,
            name=names[row.thing_id].name,
            property=row.property,
            before=row.before,
            after=row.after,
        )
        for kind, rows in (("node", nodes), ("edge", edges))
        for row in rows
        if row.thing_id in names
    ]


def _of(thing: InstrumentedAttribute[UUID | None], iteration_id: UUID) -> Select[Any]:
    """Claims of the iteration, each beside the newest earlier one of the same property that is told otherwise."""
    now, before = aliased(Evidence), aliased(Evidence)
    now_thing, before_thing = getattr(now, thing.key), getattr(before, thing.key)
    steps = select(Step.id).where(Step.iteration_id == iteration_id)
    claim = (
        func.jsonb_each(now.claims)
        .table_valued(column("key", Text), column("value", JSONB), name="claim")
        .render_derived()
    )
    earlier = (
        select(before.claims[claim.c.key].label("value"))
        .where(
            before_thing == now_thing,
            before.as_of <= now.as_of,
            before.learned_at < now.learned_at,
            or_(before.step_id.is_(None), before.step_id.not_in(steps)),
            before.claims.has_key(claim.c.key),
        )
        .order_by(before.as_of.desc(), before.learned_at.desc())
        .limit(1)
        .lateral()
    )
    return (
        select(
            now_thing.label("thing_id"),
            claim.c.key.label("property"),
            earlier.c.value.label("before"),
            claim.c.value.label("after"),
        )
        .select_from(now)
        .join(claim, true())
        .join(earlier, true())
        .where(now.step_id.in_(steps), earlier.c.value != claim.c.value)
        .order_by(now_thing, claim.c.key)
    )
