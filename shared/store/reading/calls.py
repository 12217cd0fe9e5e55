"""What was asked of the model and the search service, counted."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.page import Page, Wanted
from shared.store.reading.shapes import CallGroup, CallsView, CallTotals, RunningCall
from shared.store.reading.work_shapes import CallView
from shared.store.tables import Agent, Call, Step
from shared.store.words import CallKind, Phase, StepStatus

_NEWEST = Keyset("calls", (Call.started_at, Call.id))


async def of_agent(session: AsyncSession, owner_id: UUID, agent_id: UUID) -> CallsView:
    """Every call that is still in the ledger."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    return await _counted(session, Call.agent_id == owned.scalar_subquery())


async def page_of_agent(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    wanted: Wanted,
    *,
    kind: CallKind | None = None,
    phase: Phase | None = None,
) -> Page[CallView]:
    """One by one, the newest first; of that kind and phase where they are given."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    statement = select(Call).where(Call.agent_id == owned.scalar_subquery())
    if kind is not None:
        statement = statement.where(Call.kind == kind)
    if phase is not None:
        statement = statement.where(Call.phase == phase)
    found = await slice_of(session, statement.options(defer(Call.answer)), _NEWEST, wanted)
    return found.page(CallView.model_validate)


async def of_iteration(session: AsyncSession, iteration_id: UUID) -> CallsView:
    """The caller has seen to it that the iteration is the owner's."""
    return await _counted(session, Call.iteration_id == iteration_id)


async def running_of_iteration(session: AsyncSession, iteration_id: UUID) -> list[RunningCall]:
    """The caller has seen to it that the iteration is the owner's."""
    return await _running(session, Call.iteration_id == iteration_id)


async def running_of_agent(session: AsyncSession, agent_id: UUID) -> list[RunningCall]:
    """Those of its configuration and conversation too. The caller has seen to it that the agent is the owner's."""
    return await _running(session, Call.agent_id == agent_id)


async def running_of_step(session: AsyncSession, step_id: UUID) -> list[RunningCall]:
    """The caller has seen to it that the step is the owner's."""
    return await _running(session, Call.step_id == step_id)


async def _running(session: AsyncSession, wanted: ColumnElement[bool]) -> list[RunningCall]:
    """What is reserved for was sent, or is about to be."""
    rows = await session.execute(
        select(
            Call.step_id,
            Call.phase,
            Call.kind,
            Call.model,
            Call.sent_at,
            Call.received_chars,
            Call.progressed_at,
        )
        .join(Step, Step.id == Call.step_id)
        .where(
            wanted,
            Call.answered_at.is_(None),
            Call.reserved_on.is_not(None),
            Call.sent_at.is_not(None),
            Step.status == StepStatus.RUNNING,
        )
        .order_by(Call.sent_at)
    )
    return [RunningCall.model_validate(row) for row in rows]


async def _counted(session: AsyncSession, wanted: ColumnElement[bool]) -> CallsView:
    answered = Call.answered_at.is_not(None)
    rows = await session.execute(
        select(
            Call.kind,
            Call.phase,
            Call.model,
            func.count().filter(answered),
            func.count().filter(~answered),
            func.coalesce(func.sum(Call.input_tokens), 0),
            func.coalesce(func.sum(Call.output_tokens), 0),
            func.coalesce(func.sum(Call.cost_usd), 0),
            func.count().filter(answered, Call.kind == CallKind.LLM, Call.cost_usd.is_(None)),
        )
        .where(wanted)
        .group_by(Call.kind, Call.phase, Call.model)
        .order_by(Call.kind, Call.phase, Call.model)
    )
    groups = [CallGroup(**dict(zip(CallGroup.model_fields, row, strict=True))) for row in rows]
    return CallsView(totals=_totals(groups), groups=groups)


def _totals(groups: Sequence[CallGroup]) -> CallTotals:
    return CallTotals(
        llm_calls=sum(group.answered for group in groups if group.kind == CallKind.LLM),
        search_calls=sum(group.answered for group in groups if group.kind == CallKind.SEARCH),
        unanswered_calls=sum(group.unanswered for group in groups),
        input_tokens=sum(group.input_tokens for group in groups),
        output_tokens=sum(group.output_tokens for group in groups),
        cost_usd=sum(group.cost_usd for group in groups),
        unpriced_calls=sum(group.unpriced for group in groups),
    )
