"""Sums of iterations: costs, steps and written elements, for many iterations at once."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Float, Select, and_, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import Call, GraphEdge, GraphNode, Interaction, Step
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, CallKind, Phase, StepKind, StepStatus
from shared.graph.scope import JOINS_TWO_NODES
from shared.schemas.iterations import CallUsage, Gained, IterationSums, PhaseSums

SPENT: Final = (
    func.count().label("calls"),
    func.coalesce(func.sum(Call.input_tokens), 0).label("input_tokens"),
    func.coalesce(func.sum(Call.output_tokens), 0).label("output_tokens"),
    func.coalesce(func.sum(Call.cost_usd), 0).label("cost_usd"),
    func.coalesce(func.sum(Call.assumed_usd), 0).label("assumed_usd"),
    func.count().filter(and_(Call.kind == CallKind.LLM, Call.cost_usd.is_(None))).label("unpriced"),
)


async def sum_iterations(
    session: AsyncSession, iteration_ids: Sequence[UUID]
) -> dict[UUID, IterationSums]:
    """Returns the sums of each iteration. The caller has checked that they are the owner's."""
    steps = await _rows_by_iteration(session, _steps(iteration_ids))
    costs = await _rows_by_iteration(session, _calls(iteration_ids))
    nodes = await _rows_by_iteration(session, _nodes(iteration_ids))
    edges = await _rows_by_iteration(session, _edges(iteration_ids))
    return {
        iteration_id: IterationSums(
            **steps.get(iteration_id, {}),
            spent=CallUsage.model_validate(costs.get(iteration_id, {})),
            gained=Gained(**nodes.get(iteration_id, {}), **edges.get(iteration_id, {})),
        )
        for iteration_id in iteration_ids
    }


async def sum_phases(
    session: AsyncSession, iteration_ids: Sequence[UUID]
) -> dict[UUID, list[PhaseSums]]:
    """Returns the sums of each phase of the iterations, in the order of the phases.

    The caller has checked that they are the owner's.
    """
    calls = (
        select(Call.iteration_id, Call.phase, *SPENT)
        .where(Call.iteration_id.in_(iteration_ids))
        .group_by(Call.iteration_id, Call.phase)
    )
    seconds = func.sum(
        func.extract("epoch", Interaction.completed_at - Interaction.created_at), type_=Float
    )
    runs = (
        select(Interaction.iteration_id, Interaction.phase, func.coalesce(seconds, 0))
        .where(Interaction.iteration_id.in_(iteration_ids))
        .group_by(Interaction.iteration_id, Interaction.phase)
    )
    durations = {(row[0], row[1]): row[2] for row in await session.execute(runs)}
    rows = (await session.execute(calls)).mappings().all()
    spent = {
        (row["iteration_id"], row["phase"]): CallUsage.model_validate(dict(row)) for row in rows
    }
    return {
        iteration_id: [
            PhaseSums(
                phase=phase,
                spent=spent.get((iteration_id, phase), CallUsage()),
                seconds=durations.get((iteration_id, phase), 0),
            )
            for phase in Phase
            if (iteration_id, phase) in spent or (iteration_id, phase) in durations
        ]
        for iteration_id in iteration_ids
    }


async def _rows_by_iteration(
    session: AsyncSession, statement: Select[*tuple[Any, ...]]
) -> Mapping[UUID, Mapping[str, Any]]:
    """Returns each row by the iteration id, which the statement selects first."""
    rows = (await session.execute(statement)).mappings()
    return {row["iteration_id"]: {k: row[k] for k in row if k != "iteration_id"} for row in rows}


def _steps(iteration_ids: Sequence[UUID]) -> Select[*tuple[Any, ...]]:
    return (
        select(
            Step.iteration_id,
            _where(Step.kind == StepKind.QUERY).label("queries"),
            _where(Step.kind == StepKind.INSIGHT).label("insights"),
            _where(Step.status == StepStatus.FAILED).label("failed"),
        )
        .where(Step.iteration_id.in_(iteration_ids))
        .group_by(Step.iteration_id)
    )


def _calls(iteration_ids: Sequence[UUID]) -> Select[*tuple[Any, ...]]:
    return (
        select(Call.iteration_id, *SPENT)
        .where(Call.iteration_id.in_(iteration_ids))
        .group_by(Call.iteration_id)
    )


def _nodes(iteration_ids: Sequence[UUID]) -> Select[*tuple[Any, ...]]:
    return (
        select(
            GraphNode.iteration_id,
            _where(GraphNode.type.not_in((ANALYSIS_TYPE, ADVICE_TYPE))).label("nodes"),
            _where(GraphNode.type == ANALYSIS_TYPE).label("analyses"),
            _where(GraphNode.type == ADVICE_TYPE).label("advice"),
        )
        .where(GraphNode.iteration_id.in_(iteration_ids))
        .group_by(GraphNode.iteration_id)
    )


def _edges(iteration_ids: Sequence[UUID]) -> Select[*tuple[Any, ...]]:
    return (
        select(GraphEdge.iteration_id, func.count().label("edges"))
        .where(GraphEdge.iteration_id.in_(iteration_ids), JOINS_TWO_NODES)
        .group_by(GraphEdge.iteration_id)
    )


def _where(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count().filter(condition)
